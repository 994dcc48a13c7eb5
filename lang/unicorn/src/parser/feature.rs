//! `feature { … }`: work that a device does on packets.

use super::cursor::Parser;
use crate::ast::{ClauseKind, FeatureLine};
use crate::token::Kind;

const LINES: [&str; 10] =
    ["ethtool", "starts", "vouches", "drops", "fills", "cuts", "joins", "takes", "puts", "stamps"];

impl Parser<'_> {
    pub(super) fn feature(&mut self) -> Option<ClauseKind> {
        self.block("feature", &LINES, Self::feature_line).map(ClauseKind::Feature)
    }

    fn feature_line(&mut self, word: &str) -> Option<FeatureLine> {
        Some(match word {
            "ethtool" => {
                let mut names = vec![self.text("the name of a feature")?];
                while self.kind() == Kind::Text {
                    names.push(self.text("the name of a feature")?);
                }
                FeatureLine::Ethtool(names)
            }
            "starts" => FeatureLine::Starts(self.one_of(&["on", "off"], "how it starts")? == "on"),
            "vouches" => {
                let of = self.one_of(&["always", "each"], "for which packets it vouches")?;
                FeatureLine::Vouches { always: of == "always", text: self.text("a predicate")? }
            }
            "drops" => FeatureLine::Drops(self.text("a predicate")?),
            "fills" => FeatureLine::Fills(self.text("a predicate")?),
            "cuts" => FeatureLine::Cuts(self.flow_types()?),
            "joins" => FeatureLine::Joins(self.flow_types()?),
            "takes" => FeatureLine::Takes(self.field()?),
            "puts" => FeatureLine::Puts(self.field()?),
            _ => FeatureLine::Stamps,
        })
    }
}
