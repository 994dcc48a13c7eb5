//! Scripts as text: packetdrill's language, as far as `filetests/tcp/README.md` says.

use weever_tcp::Ecn;
use weever_wire::tcp::{Timestamps, flag};

/// One line of a script.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) when: When,
    pub(crate) event: Event,
}

/// When it happens or is to happen, in nanoseconds: from the start of the script, or from the step before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    Absolute(u64, u64),
    Relative(u64, u64),
    Any,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// `<`: a packet of the peer's.
    Inject(Packet),
    /// `>`: a packet of ours.
    Expect(Packet),
    Call(Call),
    /// What `TCP_INFO` must say: fields and values.
    Assert(Vec<(String, u64)>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packet {
    pub(crate) ecn: Option<Ecn>,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) len: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) win: Option<u16>,
    pub(crate) urg: Option<u16>,
    /// `None`: any, which is written `<...>`.
    pub(crate) options: Option<Options>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    pub(crate) wscale: Option<u8>,
    pub(crate) sack_ok: bool,
    pub(crate) stamps: Option<Timestamps>,
    pub(crate) sack: Vec<(u32, u32)>,
    pub(crate) fast_open: Option<FastOpen>,
}

/// The option of Fast Open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FastOpen {
    Ask,
    Cookie(Vec<u8>),
    /// The cookie that was first sent under this name.
    Named(String),
}

/// `name(arguments) = result ERRNO`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) result: i64,
    pub(crate) errno: Option<String>,
}

/// `--key=value` lines, and the steps.
pub(crate) type Script = (Vec<(usize, String, String)>, Vec<Step>);

pub(crate) fn parse(text: &str) -> Result<Script, String> {
    let (mut settings, mut steps) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let wrong = |why: String| format!("line {}: {why}", at + 1);
        if line.is_empty() {
            continue;
        }
        if let Some(setting) = line.strip_prefix("--") {
            let (key, value) =
                setting.split_once('=').ok_or_else(|| wrong("write --key=value".to_owned()))?;
            settings.push((at + 1, key.to_owned(), value.to_owned()));
            continue;
        }
        if line.starts_with('`') {
            return Err(wrong("shell commands are not understood here".to_owned()));
        }
        steps.push(step(at + 1, line).map_err(wrong)?);
    }
    Ok((settings, steps))
}

fn step(line: usize, text: &str) -> Result<Step, String> {
    let (time, rest) = text.split_once(char::is_whitespace).ok_or("a time and an event")?;
    let rest = rest.trim();
    let event = match rest.split_at_checked(1) {
        Some(("<", packet)) => Event::Inject(self::packet(packet.trim())?),
        Some((">", packet)) => Event::Expect(self::packet(packet.trim())?),
        Some(("%", code)) => Event::Assert(assertions(code)?),
        _ => Event::Call(call(rest)?),
    };
    Ok(Step { line, when: when(time)?, event })
}

/// `{ assert tcpi_a == 1; assert tcpi_b == 2 }%`.
fn assertions(code: &str) -> Result<Vec<(String, u64)>, String> {
    let code = code.trim().strip_prefix('{').and_then(|code| code.strip_suffix("}%"));
    let code = code.ok_or("%{ }% is on one line here")?;
    let assertion = |text: &str| {
        let text = text.trim().strip_prefix("assert ").unwrap_or_default();
        let (field, value) = text.split_once("==")?;
        Some((field.trim().to_owned(), value.trim().parse().ok()?))
    };
    let all = code.split(';').map(assertion).collect::<Option<_>>();
    all.ok_or("%{ }% holds `assert tcpi_… == NUMBER` here, joined by `;`".to_owned())
}

fn when(text: &str) -> Result<When, String> {
    if text == "*" {
        return Ok(When::Any);
    }
    let (from, to) = text.split_once('~').unwrap_or((text, text));
    let (lower, upper) = (seconds(from)?, seconds(to)?);
    let relative = from.starts_with('+');
    Ok(if relative { When::Relative(lower, upper) } else { When::Absolute(lower, upper) })
}

fn seconds(text: &str) -> Result<u64, String> {
    let number: f64 = text
        .trim_start_matches('+')
        .parse()
        .map_err(|_| format!("`{text}` is no time in seconds"))?;
    Ok((number * 1e6).round() as u64 * 1000)
}

fn packet(text: &str) -> Result<Packet, String> {
    let mut packet = Packet { options: Some(Options::default()), ..Packet::default() };
    let (head, options) = match text.find('<') {
        Some(at) => (&text[..at], Some(text[at..].trim())),
        None => (text, None),
    };
    if let Some(options) = options {
        let inner = options.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        packet.options = self::options(inner.ok_or("options end with >")?)?;
    }
    let mut words = head.split_whitespace().peekable();
    if let Some(word) = words.peek().filter(|word| word.starts_with('[')) {
        packet.ecn = Some(match *word {
            "[noecn]" => Ecn::NotEct,
            "[ect0]" => Ecn::Ect0,
            "[ect1]" => Ecn::Ect1,
            "[ce]" => Ecn::Ce,
            other => return Err(format!("`{other}`: the marks are [noecn], [ect0], [ect1], [ce]")),
        });
        words.next();
    }
    packet.flags = flags(words.next().ok_or("flags, as in `S.`")?)?;
    (packet.seq, packet.len) =
        sequence(words.next().ok_or("sequence numbers, as in `1:1001(1000)`")?)?;
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{word}` needs a number"))?;
        match word {
            "ack" => packet.ack = Some(number(value)?),
            "win" => packet.win = Some(number(value)?),
            "urg" => packet.urg = Some(number(value)?),
            other => return Err(format!("`{other}`: ack, win or urg")),
        }
    }
    Ok(packet)
}

fn flags(text: &str) -> Result<u8, String> {
    text.chars().try_fold(0, |flags, one| {
        Ok(flags
            | match one {
                'F' => flag::FIN,
                'S' => flag::SYN,
                'R' => flag::RST,
                'P' => flag::PSH,
                '.' => flag::ACK,
                'U' => flag::URG,
                'E' => flag::ECE,
                'W' => flag::CWR,
                other => return Err(format!("`{other}` is no flag: F S R P . U E W")),
            })
    })
}

fn sequence(text: &str) -> Result<(u32, u32), String> {
    let shape = || format!("`{text}`: sequence numbers are written START:END(LENGTH)");
    let (start, rest) = text.split_once(':').ok_or_else(shape)?;
    let (end, len) =
        rest.strip_suffix(')').and_then(|rest| rest.split_once('(')).ok_or_else(shape)?;
    let (start, end, len): (u32, u32, u32) = (number(start)?, number(end)?, number(len)?);
    if end.wrapping_sub(start) != len {
        return Err(format!("`{text}`: {len} octets do not reach from {start} to {end}"));
    }
    Ok((start, len))
}

fn options(text: &str) -> Result<Option<Options>, String> {
    if text.trim() == "..." {
        return Ok(None);
    }
    let mut options = Options::default();
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let words: Vec<&str> = option.split_whitespace().collect();
        match *words {
            ["nop" | "eol"] => {}
            ["sackOK"] => options.sack_ok = true,
            ["FO"] => options.fast_open = Some(FastOpen::Ask),
            ["FO", cookie] => options.fast_open = Some(fast_open(cookie)?),
            ["mss", value] => options.mss = Some(number(value)?),
            ["wscale", value] => options.wscale = Some(number(value)?),
            ["TS", "val", value, "ecr", echo] => {
                options.stamps = Some(Timestamps { value: number(value)?, echo: number(echo)? });
            }
            ["sack", ref blocks @ ..] => {
                for block in blocks {
                    let (start, end) = block.split_once(':').ok_or("a block is START:END")?;
                    options.sack.push((number(start)?, number(end)?));
                }
            }
            _ => return Err(format!("`{option}` is no option that is understood here")),
        }
    }
    Ok(Some(options))
}

/// A cookie in hexadecimal digits, or a name in capital letters.
fn fast_open(text: &str) -> Result<FastOpen, String> {
    if text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
        return Ok(FastOpen::Named(text.to_owned()));
    }
    let octet = |at| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let octets: Option<Vec<u8>> = (0..text.len()).step_by(2).map(octet).collect();
    octets.map(FastOpen::Cookie).ok_or(format!("`{text}`: a cookie is hexadecimal, or a NAME"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number that fits"))
}

fn call(text: &str) -> Result<Call, String> {
    let shape = || format!("`{text}`: a call is written NAME(ARGUMENTS) = RESULT");
    let (name, rest) = text.split_once('(').ok_or_else(shape)?;
    let (arguments, result) = rest.rsplit_once(") = ").ok_or_else(shape)?;
    let mut result = result.split_whitespace();
    let value = number(result.next().ok_or_else(shape)?)?;
    Ok(Call {
        name: name.trim().to_owned(),
        arguments: split(arguments),
        result: value,
        errno: result.next().map(str::to_owned),
    })
}

/// At commas that are in no brackets.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for one in text.chars() {
        match one {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(one);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}
