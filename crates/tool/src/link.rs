//! Connections to servers.

use crate::items;
use redis::{
    Client, Cmd, Connection, ConnectionAddr, ConnectionInfo, ConnectionLike, Pipeline,
    RedisConnectionInfo, RedisResult, Value,
};
use std::time::Duration;

/// How long a server may take to accept a connection, or to send a reply.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How to reach a server: its address, login and certificates.
#[derive(Clone)]
#[must_use]
pub struct Target(ConnectionInfo);

impl Target {
    /// The server with these settings.
    pub fn new(info: ConnectionInfo) -> Self {
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        Self(info.set_redis_settings(settings))
    }

    /// The address, for people.
    pub fn address(&self) -> String {
        match self.0.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                if host.contains(':') {
                    format!("[{host}]:{port}")
                } else {
                    format!("{host}:{port}")
                }
            }
            other => other.to_string(),
        }
    }

    /// The user and the password.
    pub fn login(&self) -> (Option<&str>, Option<&str>) {
        let settings = self.0.redis_settings();
        (settings.username(), settings.password())
    }

    /// The same server with another login, in database 0.
    pub fn with_login(&self, (user, password): (Option<&str>, Option<&str>)) -> Self {
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        Self(self.0.clone().set_redis_settings(settings))
    }

    /// Another server with the same login and certificates. An empty host means the host of this server, because a
    /// cluster node may not know its own address.
    pub fn at(&self, host: &str, port: u16) -> Self {
        let mut address = self.0.addr().clone();
        if let ConnectionAddr::Tcp(own, its_port)
        | ConnectionAddr::TcpTls {
            host: own,
            port: its_port,
            ..
        } = &mut address
        {
            *its_port = port;
            if !host.is_empty() {
                host.clone_into(own);
            }
        }
        Self(self.0.clone().set_addr(address))
    }

    /// A connection to the server, which is opened at its first use.
    pub fn link(&self) -> Link {
        let (target, connection) = (self.clone(), None);
        Link { target, connection }
    }
}

/// A reply, or the error that the server returned.
pub type Answer = Result<Value, String>;

/// A connection to a server. A failed connection is dropped, and the next use opens another one.
pub struct Link {
    target: Target,
    connection: Option<Connection>,
}

impl Link {
    fn with<T>(&mut self, act: impl FnOnce(&mut Connection) -> RedisResult<T>) -> RedisResult<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let result = act(&mut connection)?;
        self.connection = Some(connection);
        Ok(result)
    }

    fn open(&self) -> RedisResult<Connection> {
        let client = Client::open(self.target.0.clone())?;
        let connection = client.get_connection_with_timeout(TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        connection.set_write_timeout(Some(TIMEOUT))?;
        Ok(connection)
    }

    /// Sends a command. The outer error is that of the connection.
    pub fn ask(&mut self, command: &Cmd) -> Result<Answer, String> {
        let value = self.with(|connection| connection.req_command(command));
        value.map(answer).map_err(|error| error.to_string())
    }

    /// Like [`Self::ask`], but returns `None` if no reply arrives in time.
    pub fn ask_in_time(&mut self, command: &Cmd) -> Result<Option<Answer>, String> {
        match self.with(|connection| connection.req_command(command)) {
            Err(error) if error.is_timeout() => Ok(None),
            value => value
                .map(answer)
                .map(Some)
                .map_err(|error| error.to_string()),
        }
    }

    /// Sends a command, and reads the elements of its reply. Leaves out elements that `read` cannot read. An error
    /// reply has no elements.
    pub fn list<T>(
        &mut self,
        command: &Cmd,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, String> {
        let mut all = self.lists([command.clone()], read)?;
        Ok(all.pop().unwrap_or_default())
    }

    /// Like [`Self::list`], but sends several commands at once.
    pub fn lists<T>(
        &mut self,
        commands: impl IntoIterator<Item = Cmd>,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<Vec<T>>, String> {
        let all = |answer: Answer| {
            let reply = answer.unwrap_or(Value::Nil);
            items(&reply).iter().filter_map(&read).collect()
        };
        Ok(self.ask_all(commands)?.into_iter().map(all).collect())
    }

    /// Sends several commands at once. Returns the answer to each.
    pub fn ask_all(
        &mut self,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<Answer>, String> {
        let mut pipeline = Pipeline::new();
        for command in commands {
            pipeline.add_command(command);
        }
        let count = pipeline.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let packed = pipeline.get_packed_pipeline();
        let values = self.with(|connection| connection.req_packed_commands(&packed, 0, count));
        let values = values.map_err(|error| error.to_string())?;
        Ok(values.into_iter().map(answer).collect())
    }
}

fn answer(value: Value) -> Answer {
    match value {
        Value::ServerError(error) => Err(match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_owned(),
        }),
        value => Ok(value),
    }
}
