//! The workspace as `cargo metadata` sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::report::Error;

/// Our crates, and the dependency graph they are part of.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// Cargo's target directory.
    pub(crate) target: PathBuf,
    /// Our crates by name.
    pub(crate) members: BTreeMap<String, Member>,
    /// Normal and build dependencies of every crate, ours or not, by name. Versions of one crate
    /// are taken together.
    pub(crate) uses: BTreeMap<String, BTreeSet<String>>,
}

/// A crate of ours.
#[derive(Debug, Default, Clone)]
pub(crate) struct Member {
    /// Its folder, relative to the workspace.
    pub(crate) folder: PathBuf,
    /// The root files of its libraries and binaries, relative to the workspace.
    pub(crate) roots: Vec<PathBuf>,
    /// Names of the crates from elsewhere that its manifest names, of any kind.
    pub(crate) declared: BTreeSet<String>,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self, Error> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let command = format!("{cargo} metadata");
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1"])
            .output()
            .map_err(|source| Error::Start { command: command.clone(), source })?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::Command { command, stderr });
        }
        Self::parse(&output.stdout)
    }

    fn parse(json: &[u8]) -> Result<Self, Error> {
        let raw: Raw = serde_json::from_slice(json)
            .map_err(|e| Error::Parse { path: "cargo metadata".into(), message: e.to_string() })?;
        Ok(raw.into_workspace())
    }

    /// The shortest chain of dependencies from one crate to each that it uses, itself excluded.
    pub(crate) fn chains(&self, from: &str) -> BTreeMap<String, Vec<String>> {
        let mut chains = BTreeMap::from([(from.to_owned(), vec![from.to_owned()])]);
        let mut queue = std::collections::VecDeque::from([from.to_owned()]);
        while let Some(name) = queue.pop_front() {
            for next in self.uses.get(&name).into_iter().flatten() {
                if !chains.contains_key(next) {
                    let mut chain = chains[&name].clone();
                    chain.push(next.clone());
                    chains.insert(next.clone(), chain);
                    queue.push_back(next.clone());
                }
            }
        }
        chains.remove(from);
        chains
    }
}

#[derive(Deserialize)]
struct Raw {
    packages: Vec<RawPackage>,
    workspace_members: BTreeSet<String>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
    resolve: RawResolve,
}

#[derive(Deserialize)]
struct RawPackage {
    id: String,
    name: String,
    manifest_path: PathBuf,
    targets: Vec<RawTarget>,
    dependencies: Vec<RawDependency>,
}

#[derive(Deserialize)]
struct RawTarget {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct RawDependency {
    name: String,
    source: Option<String>,
}

#[derive(Deserialize)]
struct RawResolve {
    nodes: Vec<RawNode>,
}

#[derive(Deserialize)]
struct RawNode {
    id: String,
    deps: Vec<RawEdge>,
}

#[derive(Deserialize)]
struct RawEdge {
    pkg: String,
    dep_kinds: Vec<RawKind>,
}

#[derive(Deserialize)]
struct RawKind {
    kind: Option<String>,
}

impl Raw {
    fn into_workspace(self) -> Workspace {
        let names: BTreeMap<&str, &str> =
            self.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in &self.resolve.nodes {
            let edges = node.deps.iter().filter(|edge| edge.is_shipped());
            let used = edges.map(|edge| names[edge.pkg.as_str()].to_owned());
            uses.entry(names[node.id.as_str()].to_owned()).or_default().extend(used);
        }
        let ours = self.packages.iter().filter(|p| self.workspace_members.contains(&p.id));
        let members = ours.map(|p| (p.name.clone(), p.member(&self.workspace_root))).collect();
        Workspace { root: self.workspace_root, target: self.target_directory, members, uses }
    }
}

impl RawEdge {
    /// Tests may use any crate: their dependencies do not reach a user.
    fn is_shipped(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
    }
}

impl RawPackage {
    fn member(&self, root: &Path) -> Member {
        let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
        let shipped = |target: &&RawTarget| {
            target.kind.iter().any(|kind| ["lib", "bin", "proc-macro"].contains(&kind.as_str()))
        };
        let elsewhere = self.dependencies.iter().filter(|d| d.source.is_some());
        Member {
            folder: relative(self.manifest_path.parent().unwrap_or(root)),
            roots: self.targets.iter().filter(shipped).map(|t| relative(&t.src_path)).collect(),
            declared: elsewhere.map(|d| d.name.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{
        "packages": [
            {"id": "a#1", "name": "a", "manifest_path": "/w/lang/a/Cargo.toml",
             "targets": [{"kind": ["lib"], "src_path": "/w/lang/a/src/lib.rs"},
                         {"kind": ["test"], "src_path": "/w/lang/a/tests/t.rs"}],
             "dependencies": [{"name": "b", "source": null}, {"name": "ext", "source": "registry"}]},
            {"id": "b#1", "name": "b", "manifest_path": "/w/b/Cargo.toml",
             "targets": [], "dependencies": []},
            {"id": "c#1", "name": "c", "manifest_path": "/w/c/Cargo.toml",
             "targets": [], "dependencies": []},
            {"id": "ext#1", "name": "ext", "manifest_path": "/r/ext/Cargo.toml",
             "targets": [], "dependencies": []}],
        "workspace_members": ["a#1", "b#1", "c#1"], "workspace_root": "/w",
        "target_directory": "/w/target",
        "resolve": {"nodes": [
            {"id": "a#1", "deps": [{"pkg": "b#1", "dep_kinds": [{"kind": null}]},
                                   {"pkg": "c#1", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "b#1", "deps": [{"pkg": "ext#1", "dep_kinds": [{"kind": "build"}]}]},
            {"id": "c#1", "deps": []}, {"id": "ext#1", "deps": []}]}}"#;

    #[test]
    fn members_have_relative_paths_and_no_test_roots() {
        let workspace = Workspace::parse(SAMPLE.as_bytes()).unwrap();
        let a = &workspace.members["a"];
        assert_eq!(a.folder, Path::new("lang/a"));
        assert_eq!(a.roots, [Path::new("lang/a/src/lib.rs")]);
        assert_eq!(a.declared, BTreeSet::from(["ext".to_owned()]));
        assert!(!workspace.members.contains_key("ext"));
    }

    #[test]
    fn chains_leave_out_what_only_tests_use() {
        let chains = Workspace::parse(SAMPLE.as_bytes()).unwrap().chains("a");
        assert_eq!(chains["ext"], ["a", "b", "ext"]);
        assert!(!chains.contains_key("c"));
    }

    #[test]
    fn what_is_not_metadata_is_an_error() {
        assert!(Workspace::parse(b"{}").unwrap_err().to_string().contains("cargo metadata"));
    }
}
