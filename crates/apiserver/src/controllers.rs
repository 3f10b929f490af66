//! What works inside the server, beside requests.

use crate::app::App;
use crate::auth::rbac::aggregate;
use crate::gc;

/// Runs every controller until the server is stopped.
pub(crate) async fn run(app: App) {
    let mut stop = app.stop.clone();
    let all = async {
        tokio::join!(gc::run(app.clone()), aggregate::run(&app));
    };
    tokio::select! {
        biased;
        _ = stop.changed() => {}
        () = all => {}
    }
}
