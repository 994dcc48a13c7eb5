//! A crate's modules, and which file a path in its code leads to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::source::{Import, Scope, Source};

/// How many imports a name may be passed on by; more is an import of itself.
const HOPS: usize = 12;

/// The modules of one library or binary.
#[derive(Default)]
pub(super) struct Modules<'a> {
    modules: Vec<Module<'a>>,
}

struct Module<'a> {
    file: &'a Path,
    scope: &'a Scope,
    parent: usize,
    children: BTreeMap<&'a str, usize>,
}

/// The target of a path.
enum Target<'a> {
    Module(usize),
    /// An item: the file that defines it, and its name there.
    Item(&'a Path, &'a str),
}

impl<'a> Modules<'a> {
    /// Follows the `mod` declarations from the root file on. A file that is not there is left out:
    /// the compiler reports it.
    pub(super) fn of(root: &Path, sources: &'a BTreeMap<&'a Path, &'a Source>) -> Self {
        let mut modules = Self::default();
        if let Some((&path, _)) = sources.get_key_value(root) {
            let folder = path.parent().unwrap_or(Path::new(""));
            modules.add_file(path, folder, 0, sources);
        }
        modules
    }

    /// Adds a file's modules and the files that it declares; `folder` is where those lie.
    fn add_file(
        &mut self,
        path: &'a Path,
        folder: &Path,
        parent: usize,
        sources: &'a BTreeMap<&'a Path, &'a Source>,
    ) -> usize {
        let source = sources[path];
        let own = self.modules.len();
        let mut by_path: BTreeMap<&[String], usize> = BTreeMap::new();
        let mut scopes: Vec<&Scope> = source.scopes.iter().collect();
        // An inline module comes after the one around it.
        scopes.sort_by_key(|scope| scope.path.len());
        for scope in scopes {
            let parent = match scope.path.split_last() {
                Some((_, around)) => by_path.get(around).copied().unwrap_or(own),
                None => parent,
            };
            let id = self.modules.len();
            let children = BTreeMap::new();
            self.modules.push(Module { file: path, scope, parent, children });
            if let Some(name) = scope.path.last() {
                self.modules[parent].children.insert(name, id);
            }
            by_path.insert(&scope.path, id);
            for declared in &scope.files {
                let inner = scope.path.iter().fold(folder.to_owned(), |f, part| f.join(part));
                let places = match &declared.place {
                    Some(place) => [path.with_file_name(place), PathBuf::new()],
                    None => [
                        inner.join(&declared.name).with_extension("rs"),
                        inner.join(&declared.name).join("mod.rs"),
                    ],
                };
                let found = places.iter().find_map(|place| sources.get_key_value(place.as_path()));
                if let Some((&file, source)) = found.filter(|(_, source)| !source.is_test) {
                    debug_assert_eq!(source.path, file);
                    let child = self.add_file(file, &folder_of(file), id, sources);
                    self.modules[id].children.insert(&declared.name, child);
                }
            }
        }
        own
    }

    /// Each pair of files of which the first names an item that the second defines, with that
    /// name.
    ///
    /// Passing a name on (`pub use`) is not naming it; using it in code is, through any re-export.
    pub(super) fn edges(&self) -> BTreeMap<(&'a Path, &'a Path), Vec<&'a str>> {
        let mut edges: BTreeMap<(&Path, &Path), Vec<&'a str>> = BTreeMap::new();
        for (id, module) in self.modules.iter().enumerate() {
            let imports = module.scope.imports.iter();
            let imported = imports.filter(|import| !import.exported && import.name.is_some());
            let paths = imported.map(|import| &import.path).chain(&module.scope.mentions);
            for path in paths {
                if let Some(Target::Item(file, name)) = self.follow(id, path, HOPS)
                    && file != module.file
                {
                    let names = edges.entry((module.file, file)).or_default();
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
        }
        edges
    }

    fn follow(&self, from: usize, path: &[String], hops: usize) -> Option<Target<'a>> {
        let hops = hops.checked_sub(1)?;
        let mut module = from;
        let mut names = path.iter().map(String::as_str).peekable();
        let mut target = Target::Module(module);
        while let Some(&start) = names.peek() {
            module = match start {
                "crate" => 0,
                "self" => module,
                "super" => self.modules[module].parent,
                _ => break,
            };
            target = Target::Module(module);
            names.next();
        }
        while let (Target::Module(module), Some(name)) = (&target, names.next()) {
            // The inner parts of a path are modules, even if a function has the same name.
            let inner = self.modules[*module].children.get(name);
            target = match inner.filter(|_| names.peek().is_some()) {
                Some(&inner) => Target::Module(inner),
                None => self.look_up(*module, name, hops)?,
            };
        }
        Some(target)
    }

    fn look_up(&self, module: usize, name: &str, hops: usize) -> Option<Target<'a>> {
        let Module { file, scope, children, .. } = &self.modules[module];
        if let Some(item) = scope.definitions.get(name) {
            return Some(Target::Item(file, item));
        }
        if let Some(&child) = children.get(name) {
            return Some(Target::Module(child));
        }
        let called = |import: &&Import| import.name.as_deref() == Some(name);
        if let Some(import) = scope.imports.iter().find(called) {
            return self.follow(module, &import.path, hops);
        }
        let globs = scope.imports.iter().filter(|import| import.name.is_none());
        let mut within =
            globs.filter_map(|import| match self.follow(module, &import.path, hops)? {
                Target::Module(other) if other != module => {
                    self.look_up(other, name, hops.checked_sub(1)?)
                }
                _ => None,
            });
        within.next()
    }
}

/// Where the modules lie that a file declares.
fn folder_of(file: &Path) -> PathBuf {
    match file.file_name().and_then(|name| name.to_str()) {
        Some("mod.rs") => file.parent().unwrap_or(Path::new("")).to_owned(),
        _ => file.with_extension(""),
    }
}
