/** What all locks of one client have in common: the state, the servers, and calls that are repeated. */

import { type Library } from "./library.ts";
import { type Settings, processName } from "./options.ts";
import type { Common, Server } from "./server.ts";
import { Servers } from "./servers.ts";
import type { Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import type { Answer } from "./state/grants.ts";
import { State } from "./state/state.ts";
import { Pauses, now } from "./time.ts";

/** Where the next command about a key goes. */
export interface Target {
  server: Server | undefined;
  /** ASK led there. */
  isAsking: boolean;
}

/** What became of a command that was repeated, and the server that was asked last. */
export interface Outcome extends Answer {
  readonly server: Server | undefined;
}

export class Core implements Common {
  readonly library: Library;
  readonly settings: Settings;
  readonly state: State;
  readonly servers: Servers;
  readonly #process: string;
  #owners = 0;

  constructor(library: Library, settings: Settings) {
    this.library = library;
    this.settings = settings;
    this.state = new State(settings.lease, settings.reply, library.cluster !== undefined);
    this.servers = new Servers(this);
    this.#process = processName(settings.service);
  }

  /** An owner that nobody has had before: a late call then meets only its own grant. */
  freshOwner(): string {
    this.#owners += 1;
    return this.#process + this.#owners.toString(36);
  }

  use<T>(change: (state: State) => T): T {
    const { state } = this;
    state.at = Math.max(now(), state.at + 1e-6);
    try {
      return change(state);
    } finally {
      if (state.changed.length + state.elsewhere.length + state.misplaced.length > 0) this.#pass();
    }
  }

  /** Passes on what the state has for others. */
  #pass(): void {
    const { changed, elsewhere, misplaced } = this.state;
    this.state.changed = [];
    this.state.elsewhere = [];
    this.state.misplaced = [];
    for (const claim of changed) claim.caller.changed();
    for (const claim of elsewhere) claim.caller.find();
    for (const words of misplaced) void this.repeat(String(words[1]), () => words);
  }

  /** Finds where the next command about a key goes: where the last reply leads, or else to the server that has it. */
  async route(key: string, target: Target, last: unknown): Promise<Fault | undefined> {
    const to = this.servers.redirected(target.server, last);
    const found = to ?? await this.servers.find(key);
    target.isAsking = to !== undefined && (last as Fault).word === "ASK";
    target.server = found instanceof Fault ? undefined : found;
    return found instanceof Fault ? found : undefined;
  }

  /**
   * Sends a command about a key until it is answered, for two reply timeouts. The command is undefined while there is no
   * session for it.
   */
  async repeat(key: string, command: (server: Server) => Words | undefined, end = now() + 2 * this.settings.reply,
    only = this.servers.only): Promise<Outcome> {
    const { reply: limit } = this.settings;
    const target: Target = { server: only, isAsking: false };
    const pauses = new Pauses();
    let sent = 0;
    let reply: unknown;
    for (let wasOpen = false; ;) {
      if (!only) reply = await this.route(key, target, reply);
      const { server } = target;
      if (server) {
        const words = command(server);
        sent = now();
        reply = words ? await server.call(Math.min(limit, end - sent), words, target.isAsking) : Fault.none("no session", false);
      }
      if (!(reply instanceof Fault && reply.passing)) return { reply, sent, wasOpen, server };
      const pause = pauses.next();
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
      if (!(at instanceof Fault) && at !== server) this.use((state) => state.relocate(claim));
    }
  }

  /** Ends all waits, releases all that is held, and closes the connections, within two reply timeouts. */
  async close(): Promise<void> {
    if (this.state.isClosed) return;
    const end = now() + 2 * this.settings.reply;
    const grants = this.use((state) => state.close());
    const closed = new Set<number>();
    const closeSession = async (server: Server, session: number): Promise<void> => {
      const { reply } = await this.repeat("", () => ["LOCK.SESSION", "CLOSE", session], end, server);
      if (!(reply instanceof Fault)) closed.add(session);
    };
    await Promise.all(this.servers.all.flatMap((server) => server.sessions.map((session) => closeSession(server, session))));
    const left = grants.filter(({ session }) => !closed.has(session));
    await Promise.all(left.map((claim) => this.repeat(claim.key, () => claim.releaseCommand(), end)));
    await Promise.all(this.servers.all.map((server) => server.close()));
  }
}
