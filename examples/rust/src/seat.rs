//! A seat that a user holds for as long as the user has been promised: longer than any process. So it speaks to the
//! server itself: nothing renews the lock, and no process releases it by ending.

use crate::arguments::{Arguments, Wrong};
use crate::redis_data::Data;
use crate::{Outcome, print};
use redis::{Cmd, Value, cmd};
use serde_json::json;
use std::time::Duration;

const LOCK: &str = "lock:{seat}";
const PAID: &str = "{seat}:paid";

const PAY: &str = "
    redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
    redis.call('SET', KEYS[2], ARGV[2])
";

pub(crate) async fn run(data: Data, arguments: &Arguments) -> Outcome<()> {
    let user: String = arguments.get("user")?;
    let seat = match arguments.get::<String>("do")?.as_str() {
        "hold" => hold(data, &user, arguments).await?,
        "extend" => extend(data, &user, arguments).await?,
        "pay" => pay(data, &user, arguments.get("token")?).await?,
        other => return Err(Wrong(format!("--do cannot be {other}")).into()),
    };
    print(&match seat {
        (seat, Some(token)) => json!({ "seat": seat, "token": token }),
        (seat, None) => json!({ "seat": seat }),
    });
    Ok(())
}

type Seat = (&'static str, Option<u64>);

fn about_seat(word: &str, user: &str) -> Cmd {
    let mut command = cmd(word);
    command.arg(LOCK).arg(format!("seat:{user}"));
    command
}

/// Waits in line. A process that ends closes its connection, and with it leaves the line.
async fn hold(mut data: Data, user: &str, arguments: &Arguments) -> Outcome<Seat> {
    let (lease, wait) = (arguments.millis("lease-ms")?, arguments.millis("wait-ms")?);
    let mut acquire = about_seat("LOCK.ACQUIRE", user);
    acquire.arg("PX").arg(millis(lease)).arg("HOLDS").arg(1);
    if !wait.is_zero() {
        acquire.arg("BLOCK").arg(millis(wait)); // BLOCK 0 is without a limit
    }
    let Value::Array(grant) = data.run(&acquire).await? else {
        return Ok(("taken", None));
    };
    let token = grant.into_iter().next().unwrap_or_default();
    let token: u64 = redis::from_redis_value(token)?;
    if data.exists(PAID).await? {
        data.run(
            about_seat("LOCK.RELEASE", user)
                .arg("ALL")
                .arg("TOKEN")
                .arg(token),
        )
        .await?;
        return Ok(("sold", None));
    }
    Ok(("held", Some(token)))
}

async fn extend(mut data: Data, user: &str, arguments: &Arguments) -> Outcome<Seat> {
    let (token, lease): (u64, _) = (arguments.get("token")?, arguments.millis("lease-ms")?);
    let mut renew = about_seat("LOCK.RENEW", user);
    renew.arg("PX").arg(millis(lease)).arg("TOKEN").arg(token);
    match data.run(&renew).await {
        Ok(_) => Ok(("extended", None)),
        Err(error) if matches!(error.code(), Some("NOTHELD" | "NOTOWNER" | "FENCED")) => {
            Ok(("lapsed", None))
        }
        Err(error) => Err(error.into()),
    }
}

async fn pay(mut data: Data, user: &str, token: u64) -> Outcome<Seat> {
    if !data.write_fenced(PAY, &[LOCK, PAID], token, user).await? {
        return Ok(("lapsed", None));
    }
    // It is paid, even where it lapsed right after that.
    let _ = data
        .run(
            about_seat("LOCK.RELEASE", user)
                .arg("ALL")
                .arg("TOKEN")
                .arg(token),
        )
        .await;
    Ok(("paid", None))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
