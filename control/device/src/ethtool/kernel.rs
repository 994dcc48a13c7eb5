//! The system calls.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use weever_graph::nic::FlowType;

use super::layout::{NTUPLE, channels, command, driver, feature_words, put_u32, put_u64, rings};
use super::layout::{rules, spec, spreading, statistics, strings, u32_at, u64_at};
use super::matching::hash_number_of;
use super::received::by_queue;
use super::{
    Announced, Channels, Driver, EthtoolError, HashFields, Hashing, Identity, Rings, RuleSpec,
    Spreading, TableSize,
};
use crate::netlink::events::Listener;
use crate::netlink::{Questions, counters, features, interrupts};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const SIOCGIFNAME: libc::c_ulong = 0x8910;
/// The size of the kernel's table of sockets' flows: 0 if it does not steer by them.
const SOCKET_FLOWS: &str = "/proc/sys/net/core/rps_sock_flow_entries";
/// The names that `ethtool -K` takes, and those of the kernel's features.
const FEATURES: [(&str, &str); 5] = [
    ("ntuple", "rx-ntuple-filter"),
    ("rxhash", "rx-hashing"),
    ("rxvlan", "rx-vlan-hw-parse"),
    ("gro-hw", "rx-gro-hw"),
    ("lro", "rx-lro"),
];
/// The hash's functions, by their bits (`ETH_RSS_HASH_*`).
const FUNCTIONS: [(u8, &str); 3] = [(1, "toeplitz"), (2, "xor"), (4, "crc32")];
/// No table of rules or of spreading has more entries; larger answers are a driver's mistake.
const MOST: u32 = 1 << 20;
/// Room for items that come in addition to twice the expected number.
const SLACK: usize = 4096;

/// A device of the network namespace in which the calling thread was when it was opened. It stays the
/// same device when it is renamed, or when another one gets its name.
#[derive(Debug)]
pub struct KernelDriver {
    device: String,
    /// 0 if there was no such device.
    ifindex: libc::c_int,
    socket: OwnedFd,
    /// For counters; some containers have no netlink.
    questions: Option<Questions>,
    listener: Option<Listener>,
}

impl KernelDriver {
    /// Opens the device called `device`. That it is there shows at the first call.
    ///
    /// # Errors
    /// [`EthtoolError::Name`]; [`EthtoolError::Refused`] if no socket can be opened.
    pub fn open(device: &str) -> Result<KernelDriver, EthtoolError> {
        let device = device.to_string();
        if device.is_empty() || device.len() >= libc::IFNAMSIZ || device.contains(['\0', '/']) {
            return Err(EthtoolError::Name { device });
        }
        // SAFETY: no addresses in it.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            let source = io::Error::last_os_error();
            return Err(EthtoolError::of(&device, "open a socket".into(), source));
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut request = request_about(&device);
        // SAFETY: the request is live, and its name ends in a zero; the kernel writes the number.
        let found = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &mut request) };
        // SAFETY: the call has written this member of the union; before it was zeros, a valid value.
        let ifindex = if found < 0 { 0 } else { unsafe { request.ifr_ifru.ifru_ifindex } };
        let (questions, listener) = (Questions::open().ok(), None);
        Ok(KernelDriver { device, ifindex, socket, questions, listener })
    }

    /// A request about the device by the name that it has now.
    fn request(&self) -> Result<libc::ifreq, EthtoolError> {
        let mut request = request_about("");
        request.ifr_ifru.ifru_ifindex = self.ifindex;
        // SAFETY: the request is live and has the number; the kernel writes the name.
        let found = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCGIFNAME, &mut request) };
        match found {
            0.. => Ok(request),
            _ => Err(EthtoolError::Gone { device: self.device.clone() }),
        }
    }

    /// One call: `buffer` holds the structure, which the kernel reads and writes.
    ///
    /// `buffer` must be at least as long as the command's structure, arrays at its end included.
    fn call(&self, buffer: &mut [u8], what: &str) -> Result<(), EthtoolError> {
        let mut request = self.request()?;
        request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
        // SAFETY: `request` is live, and so is the buffer that it points to; every caller here makes it
        // large enough for the kernel's answer to the command that stands in it. For texts and statistics, old
        // kernels write as many items as the driver has at that moment, whatever the buffer says: what remains is
        // that a driver gets more than [`with_slack`] leaves room for between two calls.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &mut request) };
        match result {
            0.. => Ok(()),
            _ => Err(EthtoolError::of(&self.device, what.into(), io::Error::last_os_error())),
        }
    }

    /// A call about rules, with room for `locations`.
    fn rules(
        &self,
        command: u32,
        what: &str,
        locations: usize,
        set: impl FnOnce(&mut [u8]),
    ) -> Result<Vec<u8>, EthtoolError> {
        let mut buffer = vec![0; rules::SIZE.max(rules::LOCATIONS + 4 * locations)];
        put_u32(&mut buffer, 0, command);
        set(&mut buffer);
        self.call(&mut buffer, what)?;
        Ok(buffer)
    }

    fn nonsense(&self, what: &str) -> EthtoolError {
        EthtoolError::Answer { device: self.device.clone(), what: what.into() }
    }

    /// The texts of a set of strings, one after the other; nothing if the driver has no such set.
    fn texts(&self, set: u32, most: u32, what: &str) -> Result<Option<Vec<u8>>, EthtoolError> {
        let mut sizes = [0; strings::COUNT_END];
        put_u32(&mut sizes, 0, command::COUNT_STRINGS);
        put_u64(&mut sizes, strings::SETS, 1 << set);
        match self.call(&mut sizes, what) {
            Err(error) if error.is_unsupported() => return Ok(None),
            called => called?,
        }
        let has_set = u64_at(&sizes, strings::SETS) >> set & 1 == 1;
        let count = if has_set { u32_at(&sizes, strings::SIZE_OF_SET) } else { 0 };
        if count > most {
            return Err(self.nonsense(what));
        }
        let mut texts = with_slack(strings::TEXTS, strings::TEXT, count);
        put_u32(&mut texts, 0, command::GET_STRINGS);
        put_u32(&mut texts, strings::SET, set);
        put_u32(&mut texts, strings::COUNT, count);
        self.call(&mut texts, what)?;
        if u32_at(&texts, strings::COUNT) != count {
            return Err(self.nonsense(what));
        }
        texts.truncate(strings::TEXTS + strings::TEXT * count as usize);
        Ok(Some(texts.split_off(strings::TEXTS)))
    }

    /// The position of a private flag among those of the driver.
    fn private_bit(&self, name: &str) -> Result<Option<u32>, EthtoolError> {
        let texts = self.texts(strings::PRIVATE_FLAGS, u32::BITS, "list its private flags")?;
        let texts = texts.unwrap_or_default();
        let at = texts.chunks(strings::TEXT).position(|text| before_zero(text) == name.as_bytes());
        Ok(at.map(|at| at as u32))
    }

    /// The private flags, a bit each.
    fn private_flags(&self) -> Result<u32, EthtoolError> {
        let mut buffer = [0; 8];
        put_u32(&mut buffer, 0, command::GET_PRIVATE);
        self.call(&mut buffer, "show its private flags")?;
        Ok(u32_at(&buffer, 4))
    }

    /// The counters that some drivers have by netlink, most of these nowhere else.
    fn counted_by_queue(&mut self) -> Result<Option<Vec<u64>>, EthtoolError> {
        self.request()?;
        let index = u32::try_from(self.ifindex).unwrap_or_default();
        let counted = self.questions.as_mut().map(|asked| counters::received(asked, index));
        // A kernel or driver without them says so in one way or the other.
        Ok(counted.and_then(Result::ok).flatten())
    }

    /// `struct ethtool_rxfh` without table and key.
    fn spreading_sizes(&self, context: u32) -> Result<Vec<u8>, EthtoolError> {
        let mut sizes = spreading_question(context);
        self.call(&mut sizes, "say how it spreads")?;
        Ok(sizes)
    }

    fn flags(&self) -> Result<u32, EthtoolError> {
        let mut buffer = [0; 8];
        put_u32(&mut buffer, 0, command::GET_FLAGS);
        self.call(&mut buffer, "report its enabled features")?;
        Ok(u32_at(&buffer, 4))
    }
}

impl Driver for KernelDriver {
    fn device(&self) -> &str {
        &self.device
    }

    fn identity(&mut self) -> Result<Identity, EthtoolError> {
        let mut buffer = [0; driver::SIZE];
        put_u32(&mut buffer, 0, command::DRIVER_INFO);
        self.call(&mut buffer, "name its driver")?;
        let text = |at: usize| {
            let field = &buffer[at..at + driver::TEXT];
            let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        Ok(Identity { driver: text(driver::NAME), bus: text(driver::BUS) })
    }

    fn channels(&mut self) -> Result<Channels, EthtoolError> {
        let mut buffer = [0; channels::SIZE];
        put_u32(&mut buffer, 0, command::GET_CHANNELS);
        self.call(&mut buffer, "say how many queues it has")?;
        let count = |i: usize| u32_at(&buffer, channels::COUNTS + 4 * i);
        let most = std::array::from_fn(|i| u32_at(&buffer, channels::MOST + 4 * i));
        let (rx, tx, other, combined) = (count(0), count(1), count(2), count(3));
        Ok(Channels { rx, tx, other, combined, most })
    }

    fn set_channels(&mut self, to: Channels) -> Result<(), EthtoolError> {
        let mut buffer = [0; channels::SIZE];
        put_u32(&mut buffer, 0, command::SET_CHANNELS);
        for (i, count) in [to.rx, to.tx, to.other, to.combined].into_iter().enumerate() {
            put_u32(&mut buffer, channels::COUNTS + 4 * i, count);
        }
        self.call(&mut buffer, &format!("have {} receive queues", to.receiving()))
    }

    fn ntuple(&mut self) -> Result<bool, EthtoolError> {
        Ok(self.flags()? & NTUPLE != 0)
    }

    fn set_ntuple(&mut self, on: bool) -> Result<(), EthtoolError> {
        let others = self.flags()? & !NTUPLE;
        let mut buffer = [0; 8];
        put_u32(&mut buffer, 0, command::SET_FLAGS);
        put_u32(&mut buffer, 4, others | if on { NTUPLE } else { 0 });
        let what = if on { "switch steering rules on" } else { "switch steering rules off" };
        self.call(&mut buffer, what)
    }

    fn table(&mut self) -> Result<TableSize, EthtoolError> {
        let answer = self.rules(command::COUNT_RULES, "take steering rules", 0, |_| {})?;
        let data = u64_at(&answer, rules::DATA);
        let locations = (data & !rules::CHOOSES) as u32;
        Ok(TableSize {
            rules: u32_at(&answer, rules::COUNT),
            locations: (locations > 0).then_some(locations),
            chooses: data & rules::CHOOSES != 0,
        })
    }

    fn received(&mut self) -> Result<Vec<u64>, EthtoolError> {
        let what = "count the frames of each receive queue";
        if let Some(received) = self.counted_by_queue()? {
            return Ok(received);
        }
        let texts = self.texts(strings::STATISTICS, MOST, what)?.unwrap_or_default();
        let count = texts.len() / strings::TEXT;
        let mut values = with_slack(statistics::VALUES, statistics::VALUE, count as u32);
        put_u32(&mut values, 0, command::GET_STATISTICS);
        put_u32(&mut values, statistics::COUNT, count as u32);
        self.call(&mut values, what)?;
        if u32_at(&values, statistics::COUNT) != count as u32 {
            return Err(self.nonsense(what));
        }
        let names =
            texts.chunks(strings::TEXT).map(|text| String::from_utf8_lossy(before_zero(text)));
        let value = |i| u64_at(&values, statistics::VALUES + statistics::VALUE * i);
        let named = names.zip((0..count).map(value));
        by_queue(named).ok_or_else(|| EthtoolError::Unsupported {
            device: self.device.clone(),
            what: what.into(),
        })
    }

    fn locations(&mut self) -> Result<Vec<u32>, EthtoolError> {
        let what = "list its steering rules";
        let count = self.table()?.rules;
        if count > MOST {
            return Err(self.nonsense(what));
        }
        let set = |buffer: &mut [u8]| put_u32(buffer, rules::COUNT, count);
        let answer = self.rules(command::LIST_RULES, what, count as usize, set)?;
        let count = u32_at(&answer, rules::COUNT).min(count) as usize;
        Ok((0..count).map(|i| u32_at(&answer, rules::LOCATIONS + 4 * i)).collect())
    }

    fn rule(&mut self, location: u32) -> Result<RuleSpec, EthtoolError> {
        let what = format!("show steering rule {location}");
        let set = |buffer: &mut [u8]| put_u32(buffer, rules::SPEC + spec::LOCATION, location);
        let answer = self.rules(command::GET_RULE, &what, 0, set)?;
        let bytes = answer[rules::SPEC..].first_chunk().ok_or_else(|| self.nonsense(&what))?;
        Ok(RuleSpec { bytes: *bytes, context: u32_at(&answer, rules::COUNT) })
    }

    fn insert(&mut self, rule: &RuleSpec) -> Result<u32, EthtoolError> {
        let what = format!("take the rule `{}`", rule.to_options());
        let set = |buffer: &mut [u8]| {
            buffer[rules::SPEC..rules::SPEC + spec::SIZE].copy_from_slice(&rule.bytes);
            put_u32(buffer, rules::COUNT, rule.context);
        };
        let answer = self.rules(command::INSERT_RULE, &what, 0, set)?;
        Ok(u32_at(&answer, rules::SPEC + spec::LOCATION))
    }

    fn remove(&mut self, location: u32) -> Result<(), EthtoolError> {
        let what = format!("remove steering rule {location}");
        let set = |buffer: &mut [u8]| put_u32(buffer, rules::SPEC + spec::LOCATION, location);
        self.rules(command::DELETE_RULE, &what, 0, set).map(drop)
    }

    fn spreading(&mut self, context: u32) -> Result<Spreading, EthtoolError> {
        let what = "say how it spreads";
        let sizes = self.spreading_sizes(context)?;
        let table = u32_at(&sizes, spreading::TABLE_SIZE);
        let key = u32_at(&sizes, spreading::KEY_SIZE);
        if table > MOST || key > MOST {
            return Err(self.nonsense(what));
        }
        let mut buffer = spreading_question(context);
        put_u32(&mut buffer, spreading::TABLE_SIZE, table);
        put_u32(&mut buffer, spreading::KEY_SIZE, key);
        let key_at = spreading::CONFIG + 4 * table as usize;
        buffer.resize(key_at + key as usize, 0);
        self.call(&mut buffer, what)?;
        let entry = |i: usize| u32_at(&buffer, spreading::CONFIG + 4 * i);
        let table = (0..table as usize).map(entry).collect();
        Ok(Spreading { table, key: buffer[key_at..].to_vec() })
    }

    fn set_spreading(
        &mut self,
        context: u32,
        table: Option<&[u32]>,
        key: Option<&[u8]>,
    ) -> Result<(), EthtoolError> {
        let mut buffer = spreading_request(context, table, key);
        if context == 0 {
            keep_transformation(&mut buffer, &self.spreading_sizes(0)?);
        }
        self.call(&mut buffer, "spread as it is told")
    }

    fn reset_spreading(&mut self) -> Result<(), EthtoolError> {
        // A table of no entries stands for the default one.
        let mut buffer = spreading_request(0, Some(&[]), None);
        keep_transformation(&mut buffer, &self.spreading_sizes(0)?);
        self.call(&mut buffer, "spread as its driver likes")
    }

    fn add_context(&mut self, table: &[u32]) -> Result<u32, EthtoolError> {
        let mut buffer = spreading_request(spreading::NEW_CONTEXT, Some(table), None);
        self.call(&mut buffer, "have another table to spread by")?;
        Ok(u32_at(&buffer, spreading::CONTEXT))
    }

    fn remove_context(&mut self, context: u32) -> Result<(), EthtoolError> {
        let mut buffer = spreading_request(context, Some(&[]), None);
        self.call(&mut buffer, "remove a table to spread by")
    }

    fn hash_fields(&mut self, flow_type: FlowType) -> Result<HashFields, EthtoolError> {
        let what = format!("report its hashed fields of {flow_type}");
        let set = |b: &mut [u8]| put_u32(b, rules::FLOW_TYPE, hash_number_of(flow_type));
        let answer = self.rules(command::GET_HASH_FIELDS, &what, 0, set)?;
        Ok(HashFields(u64_at(&answer, rules::DATA)))
    }

    fn set_hash_fields(
        &mut self,
        flow_type: FlowType,
        fields: HashFields,
    ) -> Result<(), EthtoolError> {
        let what = format!("hash other fields of {flow_type}");
        let set = |buffer: &mut [u8]| {
            put_u32(buffer, rules::FLOW_TYPE, hash_number_of(flow_type));
            put_u64(buffer, rules::DATA, fields.0);
        };
        self.rules(command::SET_HASH_FIELDS, &what, 0, set).map(drop)
    }

    fn hashing(&mut self) -> Result<Hashing, EthtoolError> {
        let answer = self.spreading_sizes(0)?;
        let bits = answer[spreading::FUNCTION];
        let function = FUNCTIONS.iter().find(|(bit, _)| bits & bit != 0).map(|(_, name)| *name);
        let symmetric = answer[spreading::TRANSFORMATION] & spreading::SYMMETRIC != 0;
        Ok(Hashing { function: function.unwrap_or("unknown").into(), symmetric })
    }

    fn rings(&mut self) -> Result<Rings, EthtoolError> {
        let mut buffer = [0; rings::SIZE];
        put_u32(&mut buffer, 0, command::GET_RINGS);
        self.call(&mut buffer, "say how long its rings are")?;
        let of =
            |at: usize| [rings::COUNTS, rings::MOST].map(|offsets| u32_at(&buffer, offsets[at]));
        Ok(Rings { receive: of(0), send: of(1) })
    }

    fn interrupts(&mut self) -> BTreeMap<u32, u32> {
        let index = u32::try_from(self.ifindex).unwrap_or_default();
        let asked = self.questions.as_mut().map(|asked| interrupts::of_queues(asked, index));
        asked.and_then(Result::ok).unwrap_or_default()
    }

    fn feature(&mut self, name: &str) -> Result<Option<bool>, EthtoolError> {
        let what = "report its enabled features";
        let name = full_name(name);
        let texts = self.texts(strings::FEATURES, MOST, what)?.unwrap_or_default();
        let mut names = texts.chunks(strings::TEXT);
        let Some(at) = names.position(|text| before_zero(text) == name.as_bytes()) else {
            return Ok(None);
        };
        let blocks = (texts.len() / strings::TEXT).div_ceil(32);
        let mut buffer = vec![0; feature_words::FIRST + feature_words::BLOCK * blocks];
        put_u32(&mut buffer, 0, command::GET_FEATURES);
        put_u32(&mut buffer, feature_words::BLOCKS, blocks as u32);
        self.call(&mut buffer, what)?;
        let block = feature_words::FIRST + feature_words::BLOCK * (at / 32);
        Ok(Some(u32_at(&buffer, block + feature_words::ACTIVE) >> (at % 32) & 1 == 1))
    }

    fn set_feature(&mut self, name: &str, on: bool) -> Result<(), EthtoolError> {
        let what = format!("switch the feature `{name}` {}", if on { "on" } else { "off" });
        self.request()?;
        let index = u32::try_from(self.ifindex).unwrap_or_default();
        let Some(questions) = &mut self.questions else {
            return Err(EthtoolError::Unsupported { device: self.device.clone(), what });
        };
        let set = features::set(questions, index, full_name(name), on);
        set.map_err(|source| EthtoolError::of(&self.device, what, source))
    }

    fn private_flag(&mut self, name: &str) -> Result<Option<bool>, EthtoolError> {
        let Some(bit) = self.private_bit(name)? else { return Ok(None) };
        Ok(Some(self.private_flags()? >> bit & 1 == 1))
    }

    fn set_private_flag(&mut self, name: &str, on: bool) -> Result<(), EthtoolError> {
        let what = format!("switch its private flag `{name}` {}", if on { "on" } else { "off" });
        let bit = self.private_bit(name)?.ok_or_else(|| self.nonsense(&what))?;
        let others = self.private_flags()? & !(1 << bit);
        let mut buffer = [0; 8];
        put_u32(&mut buffer, 0, command::SET_PRIVATE);
        put_u32(&mut buffer, 4, others | u32::from(on) << bit);
        self.call(&mut buffer, &what)
    }

    fn steers_sockets(&mut self) -> bool {
        let entries = std::fs::read_to_string(SOCKET_FLOWS).unwrap_or_default();
        entries.trim().parse::<u64>().is_ok_and(|entries| entries > 0)
    }

    fn listen(&mut self) {
        let index = u32::try_from(self.ifindex).unwrap_or_default();
        self.listener = Listener::open(index).ok();
    }

    fn announced(&mut self) -> Announced {
        self.listener.as_mut().map(Listener::take).unwrap_or_default()
    }
}

/// The kernel's name of a feature that may have a shorter one.
fn full_name(name: &str) -> &str {
    FEATURES.iter().find(|(short, _)| *short == name).map_or(name, |(_, name)| name)
}

/// A request of zeros but for the name, which is shorter than its array.
fn request_about(device: &str) -> libc::ifreq {
    // SAFETY: a request of zeros is a valid one: integers, and a union of plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// `struct ethtool_rxfh` that asks for the sizes of table and key.
fn spreading_question(context: u32) -> Vec<u8> {
    let mut question = vec![0; spreading::CONFIG];
    put_u32(&mut question, 0, command::GET_SPREADING);
    put_u32(&mut question, spreading::CONTEXT, context);
    question
}

/// `struct ethtool_rxfh` for a change.
pub(super) fn spreading_request(
    context: u32,
    table: Option<&[u32]>,
    key: Option<&[u8]>,
) -> Vec<u8> {
    let mut buffer = vec![0; spreading::CONFIG];
    put_u32(&mut buffer, 0, command::SET_SPREADING);
    put_u32(&mut buffer, spreading::CONTEXT, context);
    let size = table.map_or(spreading::SAME_TABLE, |table| table.len() as u32);
    put_u32(&mut buffer, spreading::TABLE_SIZE, size);
    put_u32(&mut buffer, spreading::KEY_SIZE, key.map_or(0, |key| key.len() as u32));
    table.unwrap_or_default().iter().for_each(|queue| buffer.extend(queue.to_ne_bytes()));
    buffer.extend(key.unwrap_or_default());
    buffer
}

/// Has a change leave the transformation of the hash's input as the device says that it is: 0, as a request without it
/// has it, would switch symmetric hashing off.
pub(super) fn keep_transformation(request: &mut [u8], present: &[u8]) {
    request[spreading::TRANSFORMATION] = present[spreading::TRANSFORMATION];
}

/// A buffer for `count` items behind a head, and for more: kernels before "ethtool: Avoid overflowing userspace buffer on
/// stats query" write their own number of items, which may have grown since they were asked for it.
pub(super) fn with_slack(head: usize, item: usize, count: u32) -> Vec<u8> {
    vec![0; head + item * (2 * count as usize + SLACK)]
}

/// A text in a field of fixed size.
fn before_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}
