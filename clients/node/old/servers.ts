/** The servers of a user's client: for each one keeper and one pool of wait connections. */

import type { Driver, Words } from "./driver.ts";
import { type Kind, LockLost, LockUnavailable, NoReply, ServerReply, errorOf, meaning } from "./errors.ts";
import type { Common } from "./holding.ts";
import { KEPT_ELSEWHERE, Keeper } from "./keeper.ts";
import { Line } from "./line.ts";
import { Slots } from "./slots.ts";
import { type Stop, TimeUp } from "./stop.ts";
import { Pace, now } from "./time.ts";
import { WaitPool } from "./wait-pool.ts";

/** What the log lines and metrics are made of. */
export type ServerEvent = "keeper-lost" | "keeper-back";

interface Server {
  readonly keeper: Keeper;
  readonly waits: WaitPool;
}

/** An answered call. */
export interface Answer {
  readonly reply: unknown;
  readonly sent: number;
  /** The connection that it was sent on, and whose keeper that is. */
  readonly line: Line;
  readonly keeper: Keeper;
}

export interface AskOptions {
  readonly kind: Kind;
  /** For the errors. */
  readonly name: string;
  readonly until: number;
  readonly stop: Stop;
  /** What somebody else may keep by now: then nothing is sent, and it is lost. */
  readonly common?: Common | undefined;
}

interface Attempt {
  isOver: boolean;
  line?: Line;
}

/** A call that may be sent more than once. */
export class Ask {
  /** Whether a call that has not been answered may have been carried out. */
  repeated = false;
  /** The connection of the last call, and its keeper. */
  sentOn: { readonly line: Line; readonly keeper: Keeper } | undefined;

  /** What it has left is not kept on: the server sees that connection end. */
  endKeeping(): void {
    this.sentOn?.keeper.replace(this.sentOn.line);
  }
}

export class Servers {
  readonly reply: number;
  readonly #driver: Driver;
  readonly #tell: (event: ServerEvent, server: string, cause?: Error) => void;
  readonly #slots: Slots | undefined;
  readonly #servers = new Map<string, Server>();
  #isClosed = false;

  constructor(driver: Driver, reply: number, tell: (event: ServerEvent, server: string, cause?: Error) => void) {
    this.#driver = driver;
    this.reply = reply;
    this.#tell = tell;
    if (driver.cluster) this.#slots = new Slots(driver, reply);
  }

  get keepers(): Keeper[] {
    return [...this.#servers.values()].map(({ keeper }) => keeper);
  }

  /** How many connections wait or are idle. */
  get waiting(): number {
    let sum = 0;
    for (const { waits } of this.#servers.values()) sum += waits.size;
    return sum;
  }

  /** Rejects with ServerReply or NoReply. */
  async of(key: string): Promise<Server> {
    return this.#server(await this.#nameOf(key));
  }

  /** Sends a call on the keeper until it is answered. Rejects with a LockError, or what stopped it. */
  async ask(key: string, words: Words, options: AskOptions, ask = new Ask()): Promise<Answer> {
    const { kind, name, until, stop } = options;
    const pace = new Pace();
    let cause: unknown;
    for (;;) {
      const attempt: Attempt = { isOver: false };
      try {
        return await stop.race(this.#send(key, words, options, ask, attempt), until);
      } catch (error) {
        attempt.isOver = true;
        if (error instanceof ServerReply) {
          if (meaning(error.message, kind) !== "passing") throw errorOf(error, kind, name);
          cause = error;
        } else if (error instanceof NoReply) {
          ask.repeated ||= ask.sentOn !== undefined;
          cause = error;
        } else if (!(error instanceof TimeUp)) {
          throw error; // stopped
        } else {
          ask.repeated ||= ask.sentOn !== undefined;
        }
        if (now() >= until) {
          throw new LockUnavailable(`${name}: the server gave no answer in time`, { key: name, cause: cause ?? error });
        }
        if (await this.passed(key, error, attempt.line)) continue;
      }
      await stop.pause(pace.next(until), until);
    }
  }

  /** Sends a command about a key once, on a connection of its own that has closed by the end. Rejects with ServerReply or NoReply. */
  async sendAlone(words: Words): Promise<unknown> {
    const key = words[1] as string;
    const until = now() + this.reply;
    for (;;) {
      const at = this.#slots?.addressOf(await this.#nameOf(key));
      const line = await Line.open(this.#driver, { name: "lock-admin", ms: this.reply, at });
      try {
        if (now() >= until) throw new NoReply("no connection in time");
        return await line.send(words);
      } catch (error) {
        if (!(error instanceof ServerReply && error.message.startsWith("MOVED")) || !(await this.passed(key, error))) throw error;
      } finally {
        line.close();
      }
    }
  }

  /** Acts on a passing error. True where the call can be sent again at once. */
  async passed(key: string, error: unknown, line?: Line): Promise<boolean> {
    const text = error instanceof ServerReply ? error.message : "";
    if (error instanceof ServerReply && error.isOfReplica) line?.close(text); // who is the primary now?
    if (!this.#slots) return false;
    if (text.startsWith("MOVED")) {
      const before = this.#slots.serverOf(key);
      this.#slots.moved(text);
      this.#slots.refresh().catch(() => {});
      return this.#slots.serverOf(key) !== before;
    }
    if (!(error instanceof ServerReply)) await this.#slots.refresh().catch(() => {});
    return false;
  }

  /** Closes all connections. */
  close(): void {
    this.#isClosed = true;
    for (const { keeper, waits } of this.#servers.values()) {
      keeper.close();
      waits.close();
    }
  }

  /**
   * Sends a call once, unless its time is over before there is a connection. What others may keep is looked after on that
   * same connection before, where it is another than the one that kept it last.
   */
  async #send(key: string, words: Words, { name, common }: AskOptions, ask: Ask, attempt: Attempt): Promise<Answer> {
    const { keeper } = await this.of(key);
    const line = (attempt.line = await keeper.line());
    const isElsewhere = common && line !== common.keptOn && (await keeper.isKeptElsewhere(common, line));
    if (attempt.isOver) throw new NoReply("nobody waits for it any more");
    if (isElsewhere) {
      ask.repeated = false; // it stands: no earlier sending has ended it
      throw new LockLost(`${name}: ${KEPT_ELSEWHERE}`, { key: name });
    }
    if (!line.open) throw new NoReply("the connection has closed");
    const sent = now();
    ask.sentOn = { line, keeper };
    return { reply: await line.send(words), sent, line, keeper };
  }

  async #nameOf(key: string): Promise<string> {
    if (!this.#slots) return "";
    if (this.#slots.serverOf(key) === undefined) await this.#slots.refresh();
    const name = this.#slots.serverOf(key);
    if (name === undefined) throw new NoReply("no server is known to serve the key");
    return name;
  }

  #server(name: string): Server {
    const known = this.#servers.get(name);
    if (known) return known;
    const at = this.#slots?.addressOf(name);
    const waits = new WaitPool(this.#driver, at, this.reply);
    const keeper = new Keeper({
      driver: this.#driver,
      at,
      reply: this.reply,
      tell: (event, cause) => this.#tell(event, name || this.#driver.server, cause),
      silent: (why) => waits.drop(why.message),
      strayed: (keeper, text) => this.#strayed(keeper, text),
    });
    const server = { keeper, waits };
    this.#servers.set(name, server);
    if (this.#isClosed) this.close();
    return server;
  }

  /** Moves the grants of a keeper that another server serves now. */
  async #strayed(keeper: Keeper, text?: string): Promise<void> {
    if (!this.#slots) return;
    if (text) this.#slots.moved(text);
    else await this.#slots.refresh().catch(() => {});
    for (const holding of [...keeper.holdings]) {
      const name = this.#slots.serverOf(holding.key);
      if (name === undefined) continue;
      const other = this.#server(name).keeper;
      if (other !== keeper) other.adopt(holding);
    }
  }
}
