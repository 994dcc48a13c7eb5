//! Forms of packets: what drivers and NICs treat differently within one flow type.
//!
//! A rule of `udp4` may match fragments or not, a rule of `ip6` packets with extension headers or not. A
//! table says of each form and flow type `with` (its rules match them) or `without` (they never do). Where it
//! says neither, nobody knows, and a plan claims nothing about these packets.

use super::FlowType;

/// A form that packets of a flow type may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// IPv4 with options.
    Options,
    /// The first fragment of an IPv4 datagram. Rules that test ports do not match it, whether it is listed or
    /// not.
    First,
    /// Later fragments of an IPv4 datagram, which have no ports.
    Later,
    /// IPv6 with extension headers, fragments among them.
    Extensions,
    /// Frames with two tags, or with one of 802.1ad. Listed `with`: rules look behind both.
    Stacked,
    /// IP packets behind whose header another packet stands (IP in IP, GRE). Listed `with`: rules look at the
    /// outer headers.
    Tunnels,
}

impl Form {
    /// Every form.
    pub const ALL: [Form; 6] =
        [Form::Options, Form::First, Form::Later, Form::Extensions, Form::Stacked, Form::Tunnels];

    /// Its name in models.
    pub fn name(self) -> &'static str {
        match self {
            Form::Options => "options",
            Form::First => "first",
            Form::Later => "later",
            Form::Extensions => "extensions",
            Form::Stacked => "stacked",
            Form::Tunnels => "tunnels",
        }
    }

    /// The form that `name` means.
    pub fn from_name(name: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Whether a table has to say something about the form in rules of `flow_type`. Rules of Ethernet frames
    /// do not look at what an IP header says.
    pub fn concerns(self, flow_type: FlowType) -> bool {
        match self {
            Form::Options | Form::First | Form::Later => flow_type.ip_version() == Some(4),
            Form::Extensions => flow_type.ip_version() == Some(6),
            Form::Stacked => true,
            Form::Tunnels => flow_type.ip_version().is_some(),
        }
    }

    /// Whether a table may say that rules of `flow_type` match the form (`with`), or that they do not.
    /// The rest cannot be told from the fields that rules and flows have in common: no field says that there are
    /// options or two tags, and behind an extension header or a tunnel's header, fields are others.
    pub(super) fn can_be(self, matched: bool, flow_type: FlowType) -> bool {
        let behind = match self {
            Form::Options | Form::Stacked => return matched,
            Form::First | Form::Later => return true,
            Form::Extensions | Form::Tunnels => flow_type.protocol().is_some(),
        };
        !(behind && matched)
    }
}

/// A set of forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Forms(u8);

impl Forms {
    /// Every form.
    pub const ALL: Forms = Forms(0b11_1111);

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `form` is among them.
    pub fn contains(self, form: Form) -> bool {
        self.0 >> form as u8 & 1 == 1
    }

    /// These forms, and `form`.
    #[must_use]
    pub fn and(self, form: Form) -> Forms {
        Forms(self.0 | 1 << form as u8)
    }

    /// The forms one by one.
    pub fn iter(self) -> impl Iterator<Item = Form> {
        Form::ALL.into_iter().filter(move |form| self.contains(*form))
    }
}

/// A set of forms for each flow type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FormsByType([Forms; FlowType::ALL.len()]);

impl FormsByType {
    /// The forms of `flow_type`.
    pub fn of(&self, flow_type: FlowType) -> Forms {
        self.0[flow_type as usize]
    }

    /// Whether no flow type has any.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|forms| forms.is_empty())
    }

    /// Adds the forms of `other`.
    pub fn merge(&mut self, other: FormsByType) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| mine.0 |= theirs.0);
    }

    fn insert(&mut self, flow_type: FlowType, form: Form) {
        let forms = &mut self.0[flow_type as usize];
        *forms = forms.and(form);
    }
}

/// What is known of the forms of packets that a table's rules match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KnownForms {
    with: FormsByType,
    without: FormsByType,
}

impl KnownForms {
    /// Rules match all forms: for tables that somebody made up.
    pub const ALL: KnownForms = KnownForms {
        with: FormsByType([Forms::ALL; FlowType::ALL.len()]),
        without: FormsByType([Forms(0); FlowType::ALL.len()]),
    };

    /// Notes that rules of `flow_type` match packets of `form`, or never do.
    pub fn note(&mut self, flow_type: FlowType, form: Form, matched: bool) {
        let known = if matched { &mut self.with } else { &mut self.without };
        known.insert(flow_type, form);
    }

    /// The forms that rules of `flow_type` match.
    pub fn with(&self, flow_type: FlowType) -> Forms {
        self.with.of(flow_type)
    }

    /// The forms that rules of `flow_type` never match.
    pub fn without(&self, flow_type: FlowType) -> Forms {
        self.without.of(flow_type)
    }

    /// The forms of which nothing is known, of rules of these types.
    pub fn open(&self, flow_types: &[FlowType]) -> FormsByType {
        let mut open = FormsByType::default();
        for t in flow_types {
            let known = |form| self.with(*t).contains(form) || self.without(*t).contains(form);
            for form in Form::ALL.into_iter().filter(|form| form.concerns(*t) && !known(*form)) {
                open.insert(*t, form);
            }
        }
        open
    }

    /// The notes that contradict each other or that no plan could follow, with the reason.
    pub(super) fn check(&self) -> impl Iterator<Item = String> + '_ {
        let each = FlowType::ALL.into_iter().flat_map(|t| Form::ALL.map(|form| (t, form)));
        each.filter_map(|(t, form)| {
            let name = form.name();
            let (with, without) = (self.with(t).contains(form), self.without(t).contains(form));
            let possible = |matched| form.can_be(matched, t) && form.concerns(t);
            if with && without {
                return Some(format!("rules of {t} both match `{name}` and leave them out"));
            }
            (with && !possible(true) || without && !possible(false)).then(|| {
                let word = if with { "with" } else { "without" };
                format!("`{word} {name} in {t}` is nothing that a plan could reckon with")
            })
        })
    }
}
