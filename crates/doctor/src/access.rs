//! Connections to servers: addresses, logins, TLS, and questions.

use redis::{
    Client, Cmd, Connection, ConnectionAddr, ConnectionInfo, ConnectionLike, Pipeline,
    RedisConnectionInfo, TlsCertificates, Value,
};
use std::time::Duration;

/// How long a server may take to accept a connection, and for each reply.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How to reach the servers, and what is asked of them.
pub(crate) struct Access {
    pub(crate) given: ConnectionInfo,
    pub(crate) servers_login: Option<Login>,
    pub(crate) certificates: Option<TlsCertificates>,
    pub(crate) question: Question,
}

/// What to look for beside what is always looked at.
pub(crate) struct Question {
    pub(crate) sentinel_name: Option<String>,
    pub(crate) users: Vec<String>,
    pub(crate) lock: String,
}

/// A user and a password.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Access {
    /// The login of the URL.
    pub(crate) fn login(&self) -> Login {
        let info = self.given.redis_settings();
        Login {
            user: info.username().map(str::to_owned),
            password: info.password().map(str::to_owned),
        }
    }

    /// Where the given server is; none for a Unix socket.
    pub(crate) fn given_place(&self) -> Option<Place> {
        match self.given.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Place {
                    host: host.clone(),
                    port: *port,
                })
            }
            _ => None,
        }
    }

    /// A connection to the server at this place, or to the given one.
    pub(crate) fn connect(
        &self,
        place: Option<&Place>,
        login: &Login,
    ) -> Result<Conversation, String> {
        let mut address = self.given.addr().clone();
        if let Some(place) = place {
            let (to, at) = (place.host.clone(), place.port);
            address = match address {
                ConnectionAddr::TcpTls { insecure, .. } => ConnectionAddr::TcpTls {
                    host: to,
                    port: at,
                    insecure,
                    tls_params: None,
                },
                _ => ConnectionAddr::Tcp(to, at),
            };
        }
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(password);
        }
        let encrypted = matches!(address, ConnectionAddr::TcpTls { .. });
        let info = self
            .given
            .clone()
            .set_addr(address)
            .set_redis_settings(settings);
        let client = match &self.certificates {
            Some(certificates) if encrypted => Client::build_with_tls(info, certificates.clone()),
            _ => Client::open(info),
        };
        let connect = || {
            let connection = client?.get_connection_with_timeout(TIMEOUT)?;
            connection.set_read_timeout(Some(TIMEOUT))?;
            connection.set_write_timeout(Some(TIMEOUT))?;
            Ok::<_, redis::RedisError>(connection)
        };
        connect()
            .map(Conversation)
            .map_err(|error| error.to_string())
    }
}

/// A reply, or the error that the server answered.
pub(crate) type Answer = Result<Value, String>;

/// A connection to a server.
pub(crate) struct Conversation(Connection);

impl Conversation {
    /// Sends a command. The outer error is that of the connection.
    pub(crate) fn ask(&mut self, command: &Cmd) -> Result<Answer, String> {
        let value = self.0.req_command(command);
        value.map(answer).map_err(|error| error.to_string())
    }

    /// As [`Self::ask`]; none when no answer came in time.
    pub(crate) fn ask_in_time(&mut self, command: &Cmd) -> Result<Option<Answer>, String> {
        match self.0.req_command(command) {
            Ok(value) => Ok(Some(answer(value))),
            Err(error) if error.is_timeout() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends commands at once, and gives an answer for each.
    pub(crate) fn ask_all(&mut self, commands: Vec<Cmd>) -> Result<Vec<Answer>, String> {
        let mut pipeline = Pipeline::new();
        for command in commands {
            pipeline.add_command(command);
        }
        let (packed, count) = (pipeline.get_packed_pipeline(), pipeline.len());
        let values = self.0.req_packed_commands(&packed, 0, count);
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

/// A command that is written as one line, with blanks between its words.
pub(crate) fn words(line: &str) -> Cmd {
    let mut command = Cmd::new();
    command.arg(line.split(' ').collect::<Vec<_>>());
    command
}
