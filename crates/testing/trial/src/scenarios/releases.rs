//! Releases of clients on sessions: the server renews what nobody has released, for as long as the session lives.

use crate::failure::{Verdict, ensure};
use crate::limits::{AT_ONCE, MARGIN, RELEASE, REPLY, ms};
use crate::site::Site;
use crate::stage::{LEASE, SEEN, Stage};
use testbed::{Expect, Fault, run};

const RELEASED: &str = "released";
const TAKEN: &str = "taken";

/// No try of a release gets through within its time. The loop sends it from then on.
pub(super) fn unfinished(stage: &Stage) -> Verdict {
    let (site, proxy, worker) = stage.behind_proxy(Site::start())?;
    // So long that the grant is no stray before the loop has sent its release.
    let lease = ms(8000);
    let held = worker.acquire("held").lease(lease).granted()?;
    let released = worker.acquire(RELEASED).lease(lease).granted()?;
    proxy.inject(Fault::ResetRequest, "LOCK.RELEASE", usize::MAX);
    let (took, _) = worker.release(&released).refused_after(&["unavailable"])?;
    proxy.inject(Fault::ResetRequest, "LOCK.RELEASE", 0);
    ensure!(took >= REPLY, "a release was given up after {took:.1?}");
    worker.no_longer_holds(&released)?;
    let limit = lease / 3 + SEEN + MARGIN;
    site.until_free(&[RELEASED.to_owned()], limit, "a release can get through")?;
    // It concerns that grant alone.
    let again = worker.acquire(RELEASED).lease(lease).granted()?;
    worker.still_holds(&again, "with the grant before it")?;
    worker.release(&again).ok()?;
    worker.still_holds(&held, "with a release")?;
    worker.release(&held).ok()?;
    stage.end(&site, &[&worker], lease)
}

/// The right to release is missing. The lock is left behind in a session that ends; all else moves to another one.
pub(super) fn refused(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let mut server = site.server().connection();
    let held = worker.acquire("held").granted()?;
    let released = worker.acquire(RELEASED).granted()?;
    let wait = site.in_vain(&worker.acquire(TAKEN).wait(ms(30_000)))?;
    run(&mut server, "ACL SETUSER default -lock.release").okay();
    let (took, _) = worker.release(&released).refused_after(&["refused"])?;
    ensure!(took < AT_ONCE + MARGIN, "refused after {took:.1?}");
    // The POLL that waits, the moves, and 2 s in which late replies may come; then the old session is closed.
    let limit = LEASE / 3 + RELEASE + REPLY + MARGIN;
    site.until_free(&[RELEASED.to_owned()], limit, "its release was refused")?;
    run(&mut server, "ACL SETUSER default +lock.release").okay();
    worker.still_holds(&held, "with the session of another")?;
    site.give_back(TAKEN);
    worker.release(&wait.granted()?).ok()?;
    worker.works(RELEASED, ms(1000))?;
    worker.release(&held).ok()?;
    stage.end(&site, &[&worker], LEASE)
}
