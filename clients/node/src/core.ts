/** What all locks of one client have in common: the state, the servers, and calls that are repeated. */

import { type Library } from "./library.ts";
import { type Settings, processName } from "./options.ts";
import type { Common, Server } from "./server.ts";
import { Servers } from "./servers.ts";
import type { Words } from "./state/claim.ts";
import type { Answer } from "./state/claims.ts";
import { Fault } from "./state/fault.ts";
import { State } from "./state/state.ts";
import { Pauses, now } from "./time.ts";

/** Where the next try of a call goes. */
export interface Target {
  readonly server: Server | undefined;
  /** ASK led there. */
  readonly isAsking: boolean;
  /** Why no server is known. */
  readonly fault?: Fault;
}

/** What became of a command that was repeated, and the server that was asked last. */
export interface Outcome extends Answer {
  readonly server: Server | undefined;
}

export class Core implements Common {
  readonly library: Library;
  readonly settings: Settings;
  readonly servers: Servers;
  readonly #state: State;
  readonly #process: string;
  #owners = 0;

  constructor(library: Library, settings: Settings) {
    this.library = library;
    this.settings = settings;
    this.#state = new State(settings.lease, settings.replyTimeout, library.cluster !== undefined);
    this.servers = new Servers(this);
    this.#process = processName(settings.service);
  }

  /** An owner that nobody has had before: a late call then meets only its own grant. */
  freshOwner(): string {
    this.#owners += 1;
    return [this.#process, this.#owners.toString(36)].join("-"); // not a rope, which libraries encode slowly
  }

  get state(): State {
    this.#state.at = Math.max(now(), this.#state.at + 1e-6);
    return this.#state;
  }

  resend(words: Words): void {
    void this.repeat(String(words[1]), () => words);
  }

  /** Finds where the next try of a call about a key goes: where the last reply leads, or else to the server that has it. */
  async route(key: string, last?: Server, reply?: unknown): Promise<Target> {
    const to = this.servers.redirected(last, reply);
    if (to) return { server: to, isAsking: (reply as Fault).word === "ASK" };
    const server = await this.servers.find(key);
    return server instanceof Fault ? { server: undefined, isAsking: false, fault: server } : { server, isAsking: false };
  }

  /**
   * Sends a command about a key until it is answered, for two reply timeouts. The command is undefined while there is no
   * session for it.
   */
  async repeat(key: string, command: (server: Server) => Words | undefined, end = now() + 2 * this.settings.replyTimeout,
    only = this.servers.only): Promise<Outcome> {
    let target: Target = { server: only, isAsking: false };
    let pauses: Pauses | undefined;
    for (let wasOpen = false, reply: unknown; ;) {
      if (!only) target = await this.route(key, target.server, reply);
      const { server, isAsking, fault } = target;
      const sent = now();
      const words = server && command(server);
      const limit = Math.min(this.settings.replyTimeout, end - sent);
      reply = words ? await server.call(limit, words, isAsking) : fault ?? Fault.none("no session", false);
      if (!(reply instanceof Fault && reply.passing)) return { reply, sent, wasOpen, server };
      const pause = (pauses ??= new Pauses()).next();
      if (now() + pause >= end || (key === "" && reply.word === "NOSESSION")) return { reply, sent, wasOpen, server };
      wasOpen ||= reply.noReply;
      if (pause > 0) await new Promise((resolve) => { setTimeout(resolve, pause); });
    }
  }

  async relocate(server: Server): Promise<void> {
    const claims = this.state.claimsOn(server);
    await this.servers.refresh();
    for (const claim of claims) {
      const at = await this.servers.find(claim.key);
      if (!(at instanceof Fault) && at !== server) this.state.relocate(claim);
    }
  }

  /** Ends all waits, releases all that is held, and closes the connections, within two reply timeouts. */
  async close(): Promise<void> {
    if (this.state.isClosed) return;
    const end = now() + 2 * this.settings.replyTimeout;
    const grants = this.state.close();
    const closed = new Set<number>();
    const closeSession = async (server: Server, session: number): Promise<void> => {
      const { reply } = await this.repeat("", () => ["LOCK.SESSION", "CLOSE", session], end, server);
      if (!(reply instanceof Fault)) closed.add(session);
    };
    await Promise.all(this.servers.all.flatMap((server) => [...server.left.keys(), server.session]
      .filter((session) => session > 0).map((session) => closeSession(server, session))));
    const left = grants.filter(({ session }) => !closed.has(session));
    await Promise.all(left.map((claim) => this.repeat(claim.key, () => claim.releaseCommand(), end)));
    await Promise.all(this.servers.all.map((server) => server.close()));
  }
}
