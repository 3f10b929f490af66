//! Signals that ask this program to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Waits for the first of them and names it.
pub(crate) async fn stop_signal() -> anyhow::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}

/// All of them, one after the other, as the exit codes they stand for.
pub(crate) fn signals() -> anyhow::Result<mpsc::Receiver<u8>> {
    let (sender, receiver) = mpsc::channel(4);
    for (kind, code) in
        [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143), (SignalKind::hangup(), 129)]
    {
        let (mut signals, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                // More than a few at once say nothing new.
                let _ = sender.try_send(code);
            }
        });
    }
    Ok(receiver)
}
