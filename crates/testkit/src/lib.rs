//! Support for tests of whole jobs: the real API server and the real operator in one process and in virtual time,
//! with a kubelet that follows a script and a wire on which anything can go wrong.
//!
//! ```ignore
//! #[tokio::test(start_paused = true)]
//! async fn a_job_succeeds() {
//!     let plane = Plane::builder().scripts(|_| PodScript::exits(0, 60)).start().await;
//!     plane.create(pytorch("a").master().workers(2)).await;
//!     plane.until("it succeeds", |world| world.shape("a") == "Created=T Running=F Succeeded=T").await;
//! }
//! ```
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test support: what cannot be is best said with a panic that names it"
)]

pub mod clock;
pub mod crds;
pub mod faults;
pub mod gate;
pub mod jobs;
pub mod kubelet;
pub mod plane;
pub mod rest;
pub mod watch;

pub use crds::Crds;
pub use faults::{Faults, Rates};
pub use gate::{Death, Moment};
pub use jobs::{Job, jax, mpi, paddle, pytorch, tf, xgboost};
pub use kubelet::{End, Exit, History, PodInfo, PodScript, Run};
pub use plane::{Plane, World};
