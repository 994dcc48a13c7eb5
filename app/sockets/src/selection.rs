//! Which sockets of a program are to be on weever: `tcp port 80 or udp port 5000-5010`.

use std::str::FromStr;

/// A choice of sockets by protocol and port. The empty text chooses all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    terms: Vec<Term>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    tcp: bool,
    udp: bool,
    first: u16,
    last: u16,
}

/// Why a text is no selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no choice of sockets: {why}; write `tcp`, `udp port 53`, `port 8000-8010`, joined by `or`"
)]
pub struct SelectionError {
    text: String,
    why: String,
}

impl Selection {
    /// Chooses no socket.
    pub fn nothing() -> Selection {
        Selection { terms: Vec::new() }
    }

    /// Whether a socket of TCP (else UDP) with this port is chosen: its own port, or that of its peer.
    pub fn covers(&self, tcp: bool, port: u16) -> bool {
        let of_protocol = |term: &&Term| if tcp { term.tcp } else { term.udp };
        let mut terms = self.terms.iter().filter(of_protocol);
        terms.any(|term| (term.first..=term.last).contains(&port))
    }
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Selection, SelectionError> {
        let all = Term { tcp: true, udp: true, first: 0, last: u16::MAX };
        if text.trim().is_empty() {
            return Ok(Selection { terms: vec![all] });
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let terms = words.split(|word| *word == "or").map(term);
        let terms = terms.collect::<Result<_, _>>();
        terms
            .map(|terms| Selection { terms })
            .map_err(|why| SelectionError { text: text.into(), why })
    }
}

fn term(words: &[&str]) -> Result<Term, String> {
    let (tcp, udp, rest) = match words {
        ["tcp", rest @ ..] => (true, false, rest),
        ["udp", rest @ ..] => (false, true, rest),
        ["port", ..] => (true, true, words),
        [] => return Err("a word is missing".into()),
        [word, ..] => return Err(format!("{word:?} is no protocol")),
    };
    let (first, last) = match rest {
        [] => (0, u16::MAX),
        ["port", ports] => {
            let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
            let number =
                |text: &str| text.parse().map_err(|_not_a_port| format!("{text:?} is no port"));
            (number(first)?, number(last)?)
        }
        [word, ..] => return Err(format!("{word:?} is not expected there")),
    };
    if first > last {
        return Err(format!("{first} is above {last}"));
    }
    Ok(Term { tcp, udp, first, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_and_ports_choose_sockets() {
        let all: Selection = "".parse().unwrap();
        assert!(all.covers(true, 0) && all.covers(false, 65535));
        let some: Selection = "tcp port 80 or udp port 5000-5010 or port 7".parse().unwrap();
        for (tcp, port, covered) in [
            (true, 80, true),
            (false, 80, false),
            (false, 5000, true),
            (false, 5010, true),
            (false, 5011, false),
            (true, 5005, false),
            (true, 7, true),
            (false, 7, true),
        ] {
            assert_eq!(some.covers(tcp, port), covered, "tcp {tcp}, port {port}");
        }
        assert!("tcp".parse::<Selection>().unwrap().covers(true, 1));
        assert!(!"tcp".parse::<Selection>().unwrap().covers(false, 1));
        assert!(!Selection::nothing().covers(true, 80));
    }

    #[test]
    fn other_texts_are_refused_with_the_word_that_is_wrong() {
        for (text, word) in [
            ("sctp", "sctp"),
            ("tcp port", "port"),
            ("tcp port http", "http"),
            ("tcp port 90-80", "above"),
            ("tcp or", "missing"),
            ("tcp host 1", "host"),
            ("port 70000", "70000"),
        ] {
            let error = text.parse::<Selection>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
