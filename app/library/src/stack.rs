//! Stacks, and opening queues on them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use weever_app_server::Trusted;
use weever_app_sockets::{AppQueue, Backend, Error, QueueConfig};
use weever_engine::{Lost, Mode, monotonic};
use weever_host::{HostBuilder, HostHandle};
use weever_packet::{Pool, PoolConfig};

use crate::backend::Inside;
use crate::backend::{Shared, fail};
use crate::seat::{Keeper, Seat};
use crate::settings::{Entrance, LibraryError, SCHEME, Settings, lent_for_each};

/// The most sockets that the stack's queues can have together.
const MAX_SOCKETS: usize = 1 << 20;
/// Frames for datagrams longer than an ordinary frame, on their way from the application.
const LARGE_FRAMES: u32 = 64;

/// A stack for an application: in a process of its own, or in this one. Clones are of the same stack.
#[derive(Clone, Debug)]
pub struct Stack {
    config: QueueConfig,
    library: Option<Library>,
}

impl Stack {
    /// The stack that `config` names: a path, or `library:` and [`Settings`], in which case it is
    /// started here and ends with the last of its queues and clones.
    ///
    /// # Errors
    /// [`LibraryError`]; a stack in another process is looked for when a queue is opened.
    pub fn open(config: &QueueConfig) -> Result<Stack, LibraryError> {
        let text = config.path.to_str().filter(|text| text.starts_with(SCHEME));
        let library = match text {
            Some(text) => Some(Library::open(&text.parse()?)?),
            None => None,
        };
        Ok(Stack { config: config.clone(), library })
    }

    /// Whether `config` names a stack in this process.
    pub fn is_inside(config: &QueueConfig) -> bool {
        config.path.to_str().is_some_and(|text| text.starts_with(SCHEME))
    }

    /// Opens a queue, for the thread that will use it. On a stack in this process, as many queues as
    /// it has workers turn one each; further queues are served by the others' threads and keepers.
    ///
    /// # Errors
    /// Those of [`AppQueue::connect`].
    pub fn queue(&self) -> Result<AppQueue, Error> {
        self.queue_as(&self.config)
    }

    /// As [`queue`](Self::queue), with a name, slot and geometry of its own. The stack is the same.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_as(&self, config: &QueueConfig) -> Result<AppQueue, Error> {
        match &self.library {
            Some(library) => library.queue(config),
            None => {
                AppQueue::connect(&QueueConfig { path: self.config.path.clone(), ..config.clone() })
            }
        }
    }
}

/// A stack inside this process. Clones are of the same; it ends with the last of them and of its
/// queues.
#[derive(Clone)]
pub struct Library {
    shared: Arc<Shared>,
}

impl Library {
    /// Starts the stack that these settings describe.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn open(settings: &Settings) -> Result<Library, LibraryError> {
        let (library, entrance) = Library::open_quietly(settings)?;
        entrance.open()?;
        Ok(library)
    }

    /// As [`open`](Self::open), but packets come to the stack only when its entrance is opened: a program that opens its
    /// sockets before refuses no connection that comes while it starts.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_quietly(settings: &Settings) -> Result<(Library, Entrance), LibraryError> {
        let (builder, entrance) = settings.builder()?;
        Ok((Library::start(builder, settings.patience)?, entrance))
    }

    /// Starts a host as a stack whose workers the threads of this application turn. A keeper takes
    /// over a worker that was not turned for `patience`.
    ///
    /// # Errors
    /// [`LibraryError::Host`], [`LibraryError::Pool`], [`LibraryError::Thread`].
    pub fn start(mut builder: HostBuilder, patience: Duration) -> Result<Library, LibraryError> {
        // The keepers' threads share their cores with the application's.
        builder.mode(Mode::Interrupt);
        let large = Pool::new(PoolConfig::large(LARGE_FRAMES))?;
        let mut server = builder.applications(Some(large), MAX_SOCKETS)?;
        // Nothing is copied between packets and programs in their process, where the pool allows it.
        let workers = builder.worker_count();
        let spare = builder.pool().frames() / 2 / workers;
        let lent = lent_for_each(workers).min(spare);
        builder.lend_frames(&mut server, 0..workers, lent, &Trusted::Everybody);
        let mut host = builder.build(monotonic())?;
        let workers = host.take_workers();
        let seats: Vec<_> =
            workers.into_iter().map(|worker| Arc::new(Seat::new(worker, patience))).collect();
        let mut shared = Shared {
            keepers: Vec::new(),
            free: Mutex::new((0..seats.len()).rev().collect()),
            seats,
            server: Mutex::new(server),
            failed: Arc::default(),
            handle: host.handle().clone(),
            _host: Mutex::new(host),
        };
        for (number, seat) in shared.seats.iter().enumerate() {
            let failed = Arc::clone(&shared.failed);
            let lost = move |lost: Lost| fail(&failed, &lost);
            let keeper = Keeper::start(Arc::clone(seat), format!("keeper-{number}"), lost);
            shared.keepers.push(keeper.map_err(LibraryError::Thread)?);
        }
        Ok(Library { shared: Arc::new(shared) })
    }

    /// Opens a queue; see [`Stack::queue`].
    ///
    /// # Errors
    /// [`Error::Refused`] when its geometry is not possible.
    pub fn queue(&self, config: &QueueConfig) -> Result<AppQueue, Error> {
        AppQueue::over(self.backend(), config)
    }

    /// What [`queue`](Self::queue) opens a queue over, for a program that opens its queues itself
    /// ([`AppQueue::over`]).
    pub fn backend(&self) -> Box<dyn Backend> {
        Box::new(Inside::new(Arc::clone(&self.shared)))
    }

    /// The host's network, graph and counters.
    pub fn handle(&self) -> &HostHandle {
        &self.shared.handle
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Library({} workers)", self.shared.seats.len())
    }
}
