//! A seat that a user holds for some minutes, over several processes.

use crate::arguments::{Arguments, Wrong};
use crate::redis_data::Data;
use crate::{Outcome, print};
use redis_lock_client::{Error, Lock, Locks};
use serde_json::json;

const LOCK: &str = "lock:{seat}";
const PAID: &str = "{seat}:paid";

const PAY: &str = "
    redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
    redis.call('SET', KEYS[2], ARGV[2])
";

pub(crate) async fn run(locks: &Locks, data: Data, arguments: &Arguments) -> Outcome<()> {
    let user: String = arguments.get("user")?;
    // The hold is the user's, whichever process is about it, and lasts as long as it was given.
    let lock = locks.lock(LOCK).owner(format!("seat:{user}")).fixed();
    let seat = match arguments.get::<String>("do")?.as_str() {
        "hold" => hold(lock, data, arguments).await?,
        "extend" => extend(&lock, arguments).await?,
        "pay" => pay(&lock, data, &user, arguments.get("token")?).await?,
        other => return Err(Wrong(format!("--do cannot be {other}")).into()),
    };
    print(&seat);
    Ok(())
}

async fn hold(lock: Lock, mut data: Data, arguments: &Arguments) -> Outcome<serde_json::Value> {
    let lock = lock
        .lease(arguments.millis("lease-ms")?)
        .wait(arguments.millis("wait-ms")?);
    let guard = match lock.acquire().await {
        Ok(guard) => guard,
        Err(Error::Busy) => return Ok(json!({ "seat": "taken" })),
        Err(error) => return Err(error.into()),
    };
    if data.exists(PAID).await? {
        guard.release().await?;
        return Ok(json!({ "seat": "sold" }));
    }
    // It stays held when this process ends.
    Ok(json!({ "seat": "held", "token": guard.detach().await? }))
}

async fn extend(lock: &Lock, arguments: &Arguments) -> Outcome<serde_json::Value> {
    let lock = lock.clone().lease(arguments.millis("lease-ms")?);
    match lock.adopt(arguments.get("token")?).await {
        Ok(guard) => {
            guard.detach().await?;
            Ok(json!({ "seat": "extended" }))
        }
        Err(Error::Lost(_)) => Ok(json!({ "seat": "lapsed" })),
        Err(error) => Err(error.into()),
    }
}

async fn pay(lock: &Lock, mut data: Data, user: &str, token: u64) -> Outcome<serde_json::Value> {
    let written = data.write_fenced(PAY, &[LOCK, PAID], token, user).await?;
    if !written {
        return Ok(json!({ "seat": "lapsed" }));
    }
    let released = async { lock.adopt(token).await?.release().await };
    match released.await {
        // It is paid, even where it lapsed right after that.
        Ok(()) | Err(Error::Lost(_)) => Ok(json!({ "seat": "paid" })),
        Err(error) => Err(error.into()),
    }
}
