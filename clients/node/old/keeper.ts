/** The one connection of the process to a server on which its grants are kept. */

import type { Driver, Address } from "./driver.ts";
import { NoReply, ServerReply, meaning } from "./errors.ts";
import type { Common, Holding } from "./holding.ts";
import { Line } from "./line.ts";
import { fieldsOf, grantOf } from "./replies.ts";
import { Takeovers } from "./takeovers.ts";
import { Pace, type Timer, later, now } from "./time.ts";

/** A PING at least so often, also when nothing is kept, so that a dead connection is found before it is needed. */
const IDLE_PING = 10_000;
const FASTEST_PING = 100;
/** While calls wait at the server, on other connections, which have to hear when it falls silent. */
const WAIT_PING = 10_000 / 3;

/** Of so many of its connections a keeper knows the ids. */
const MOST_IDS = 100;

/** Why a grant is lost that somebody else has in its owner's name. */
export const KEPT_ELSEWHERE = "another connection keeps it now";

export interface KeeperContext {
  readonly driver: Driver;
  readonly at: Address | undefined;
  readonly reply: number;
  tell(event: "keeper-lost" | "keeper-back", cause?: Error): void;
  /** The server has not answered in time: the reply to a wait may have been swallowed, too. */
  silent(why: Error): void;
  /** The keeper cannot be reached, or says that it does not serve a key: the grants may belong elsewhere now. */
  strayed(keeper: Keeper, text?: string): Promise<void>;
}

export class Keeper {
  /** The sending of the last PING that has been answered: it tells of all grants that are kept. */
  proven = -Infinity;
  readonly #context: KeeperContext;
  readonly #holdings = new Set<Holding>();
  /** Grants that came from a wait a moment ago. */
  readonly #takeovers = new Takeovers((holding) => {
    const isLate = now() >= holding.knownUntil; // the process stood still: the server's answer counts
    void this.adopt(holding);
    if (isLate) holding.watch(this.#context.reply);
  });
  readonly #pace = new Pace();
  #line: Line | undefined;
  #opening: Promise<Line> | undefined;
  #asking: Promise<void> | undefined;
  #isReopening = false;
  /** How many calls wait at the server. */
  #waits = 0;
  /** Whether it was told that there is no connection. */
  #isMissed = false;
  #notBefore = 0;
  #ping: Timer | undefined;
  /** When that comes. */
  #pingAt = Infinity;
  /** The smallest third of a lease or a silence since the grants were last looked at all together. */
  #interval = IDLE_PING;
  #isClosed = false;
  /** The client ids of the connections of this keeper; none where the server does not tell. */
  #ids: number[] | undefined = [];

  constructor(context: KeeperContext) {
    this.#context = context;
  }

  get isOpen(): boolean {
    return this.#line?.open === true;
  }

  /** The connection that is open, if there is one. */
  get present(): Line | undefined {
    return this.#line;
  }

  get holdings(): ReadonlySet<Holding> {
    return this.#holdings;
  }

  /** The connection, opened if it is not. Rejects with ServerReply or NoReply after one attempt. */
  line(): Promise<Line> {
    if (this.#line) return Promise.resolve(this.#line);
    this.#opening ??= this.#open().finally(() => { this.#opening = undefined; });
    return this.#opening;
  }

  /** A grant that was asked for with KEEP on this line. */
  take(holding: Holding, line: Line): void {
    if (!holding.isLive) return;
    holding.wasKept = true;
    holding.keptOn = line;
    if (line !== this.#line) return void this.adopt(holding);
    this.#takeovers.delete(holding);
    holding.keeper = this;
    this.#holdings.add(holding);
    this.hurry(holding);
    holding.isKept = true;
    holding.unwatch();
  }

  /** A grant that came from a wait, and is to be kept here when it is still held in a moment. */
  expect(holding: Holding): void {
    if (!holding.isLive) return;
    holding.keeper = this;
    holding.wasKept = true;
    this.#takeovers.add(holding, holding.proof + holding.lease / 3);
  }

  /** Whether the grant was expected. It is not any more. */
  forget(holding: Holding): boolean {
    return this.#takeovers.delete(holding);
  }

  /** A grant that is to be kept here from now on. Settles when this was tried. */
  adopt(holding: Holding): Promise<void> {
    holding.keeper?.leave(holding);
    holding.keeper = this;
    this.#holdings.add(holding);
    this.hurry(holding);
    holding.watch();
    return this.#line ? this.#keepOn(holding, this.#line) : this.#reopen();
  }

  /** Not kept by this keeper any more, as far as the client is concerned. */
  leave(holding: Holding): void {
    if (!this.#takeovers.delete(holding) && !this.#holdings.delete(holding)) return;
    if (this.#holdings.size === 0) this.#interval = this.#longest;
    if (holding.isKept) holding.proof = Math.max(holding.proof, this.proven);
    holding.isKept = false;
    holding.keeper = undefined;
  }

  /** A call begins to wait at the server. Gives what is to be called when it has been answered. */
  attend(): () => void {
    this.#waits += 1;
    this.#hurryTo(WAIT_PING);
    if (!this.#line) void this.#reopen();
    return () => {
      this.#waits -= 1;
      if (this.#holdings.size === 0) this.#interval = this.#longest;
    };
  }

  /** By a grant, or by who has to hear of the server's silence. */
  get #isNeeded(): boolean {
    return this.#holdings.size > 0 || this.#waits > 0;
  }

  get #longest(): number {
    return this.#waits > 0 ? WAIT_PING : IDLE_PING;
  }

  /** Asks whether all grants that are kept here stand; once for all who ask now. Rejects with ServerReply or NoReply. */
  ping(): Promise<void> {
    this.#asking ??= this.#sendPing();
    return this.#asking;
  }

  async #sendPing(): Promise<void> {
    let line: Line;
    try {
      line = await this.line();
    } finally {
      this.#asking = undefined; // who asks from here on needs a PING that is sent later
    }
    const sent = now();
    await line.send(["PING"]);
    this.#pace.reset();
    if (line === this.#line) this.proven = Math.max(this.proven, sent);
  }

  /** Closes this line, if it is the keeper's still: what a call on it may have left must not be kept on. */
  replace(line: Line): void {
    if (line === this.#line) line.close("replaced");
  }

  close(): void {
    this.#isClosed = true;
    this.#ping?.cancel();
    this.#line?.close();
  }

  async #open(): Promise<Line> {
    const pause = this.#notBefore - now();
    if (pause > 0) await new Promise<void>((resolve) => { later(pause, resolve, { ref: true }); });
    if (this.#isClosed) throw new NoReply("closed");
    const { driver, at, reply } = this.#context;
    let line: Line;
    try {
      line = await Line.open(driver, { name: "lock-keeper", ms: reply, at });
      await this.#learnId(line);
    } catch (error) {
      this.#notBefore = now() + this.#pace.next();
      this.#miss(error as Error);
      throw error;
    }
    if (this.#isClosed) {
      line.close();
      throw new NoReply("closed");
    }
    this.#line = line;
    if (this.#isMissed) this.#context.tell("keeper-back");
    this.#isMissed = false;
    this.#notBefore = now() + this.#pace.next(); // should it close at once
    line.onClose = (why) => {
      if (line.wasSilent) this.#context.silent(why);
      this.#closed(why);
    };
    this.#interval = this.#longest;
    for (const holding of this.#holdings) {
      this.hurry(holding);
      void this.#keepOn(holding, line);
    }
    this.#schedule();
    return line;
  }

  /** Rejects with NoReply. */
  async #learnId(line: Line): Promise<void> {
    try {
      const id = Number(await line.send(["CLIENT", "ID"]));
      if (id < (this.#ids?.at(-1) ?? 0)) this.#ids = []; // a server that counts anew: the others may be anybody's
      this.#ids?.push(id);
      if (this.#ids && this.#ids.length > MOST_IDS) this.#ids.shift();
    } catch (error) {
      if (!(error instanceof ServerReply)) throw error;
      this.#ids = undefined;
    }
  }

  #closed(why: Error): void {
    this.#line = undefined;
    this.#ping?.cancel();
    this.#ping = undefined;
    for (const holding of this.#holdings) {
      if (holding.isKept) holding.proof = Math.max(holding.proof, this.proven);
      holding.isKept = false;
      holding.watch();
    }
    this.proven = -Infinity;
    if (this.#isClosed) return;
    this.#miss(why);
    if (this.#isNeeded) void this.#reopen();
  }

  /** There is no connection: told once until there is one again. */
  #miss(why: Error): void {
    if (this.#isMissed || this.#isClosed) return;
    this.#isMissed = true;
    this.#context.tell("keeper-lost", why);
  }

  async #reopen(): Promise<void> {
    if (this.#isReopening) return;
    this.#isReopening = true;
    try {
      while (this.#isNeeded && !this.#line && !this.#isClosed) {
        try {
          await this.line();
        } catch {
          await this.#context.strayed(this);
        }
      }
    } finally {
      this.#isReopening = false;
    }
  }

  /** Has the grant kept on this line, and learns whether it stands. */
  async #keepOn(holding: Holding, line: Line): Promise<void> {
    const pace = new Pace();
    const isWanted = (): boolean => holding.isLive && holding.keeper === this && !holding.isEnding && line.open;
    while (isWanted()) {
      const sent = now();
      try {
        if (holding.isNamed && (await this.isKeptElsewhere(holding, line))) {
          if (holding.wasKept) {
            holding.lose(KEPT_ELSEWHERE);
            return;
          }
          await new Promise<void>((resolve) => { later(pace.next(), resolve); });
          continue; // a call is under way: who enters it again has it
        }
        if (!isWanted()) return;
        const { key, owner, token, keep } = holding;
        const grant = grantOf(await line.send(["LOCK.RENEW", key, owner, "TOKEN", token, "KEEP", keep]));
        this.#pace.reset();
        if (holding.keeper !== this || !holding.isLive) return;
        holding.proved(sent, grant?.lease ?? holding.lease);
        this.hurry(holding);
        holding.isKept = line === this.#line;
        holding.wasKept = true;
        holding.keptOn = line;
        if (holding.isKept) holding.unwatch();
        return;
      } catch (error) {
        if (!(error instanceof ServerReply)) return; // the line has closed
        if (meaning(error.message, "renew") === "lost") {
          holding.lose(error.message, error);
          return;
        }
        if (error.isOfReplica) line.close(error.message);
        if (error.message.startsWith("MOVED")) await this.#context.strayed(this, error.message);
        await new Promise<void>((resolve) => { later(pace.next(), resolve); });
      }
    }
  }

  /**
   * Whether somebody else keeps the grant in its owner's name. The server has told so by the end of the last connection: to
   * take it back would end the other's, and so on.
   */
  async isKeptElsewhere({ key, owner, token }: Common, line: Line): Promise<boolean> {
    if (!this.#ids) return false;
    try {
      const holders = (await line.send(["LOCK.HOLDERS", key])) as unknown[];
      const mine = holders.map(fieldsOf).find((fields) =>
        (token === undefined ? fields.get("owner") === owner : Number(fields.get("token")) === token));
      const keptBy = Number(mine?.get("kept-by") ?? 0);
      return keptBy !== 0 && !this.#ids.includes(keptBy);
    } catch (error) {
      if (error instanceof ServerReply && error.message.startsWith("NOPERM")) return false;
      throw error;
    }
  }

  /** PINGs are sent for the lease of this grant, too. */
  hurry({ lease, keep }: Holding): void {
    this.#hurryTo(Math.max(FASTEST_PING, Math.min(lease, keep) / 3));
  }

  #hurryTo(interval: number): void {
    if (interval >= this.#interval) return;
    this.#interval = interval;
    // Between short locks it stays set as it was.
    if (this.#line && now() + interval < this.#pingAt) this.#schedule();
  }

  #schedule(): void {
    this.#ping?.cancel();
    this.#pingAt = now() + this.#interval;
    this.#ping = later(this.#interval, () => {
      this.ping().catch(() => {}); // the line says for itself that it has closed
      if (this.#line) this.#schedule();
    });
  }
}
