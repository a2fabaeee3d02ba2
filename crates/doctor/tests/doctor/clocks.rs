//! Clocks that are wrong, by libfaketime.

use crate::support::{Doctor, healthy};
use testbed::clock::SteppedClock;

#[test]
fn a_replica_and_a_server_whose_clocks_are_wrong() {
    let primary = healthy().start();
    let address = format!("127.0.0.1 {}", primary.port());
    let replica = match SteppedClock::start(healthy().config("replicaof", &address)) {
        Ok(replica) => replica,
        Err(why) => {
            println!("left out: {why}");
            return;
        }
    };
    replica.server.wait_for_link();
    let doctor = Doctor::of(&primary);
    doctor.gone("clock-replica");
    for (seconds, severity) in [(2, "warning"), (-2, "warning"), (-60, "error")] {
        replica.step(seconds);
        let finding = doctor.comes("clock-replica", "");
        assert_eq!(finding.0["severity"], severity, "{finding:?}");
        assert!(finding.lines("shell")[0].contains("set-ntp"), "{finding:?}");
        let here = doctor.one("clock-here", "warning");
        assert_eq!(here.servers(), finding.servers());
        // As NTP does.
        replica.step(0);
        doctor.gone("clock-replica");
        doctor.gone("clock-here");
    }
}
