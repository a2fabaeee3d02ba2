/** A call that changes a grant: its lease, its mode, or whether the server keeps it. */

import type { Words } from "./driver.ts";
import { LockLost } from "./errors.ts";
import type { Change } from "./grant.ts";
import { type Holding, modeWords } from "./holding.ts";
import { grantOf } from "./replies.ts";
import { Ask, type Servers } from "./servers.ts";
import { Stop } from "./stop.ts";
import { now } from "./time.ts";
import { isOpen } from "./undo.ts";

/** Rejects with a LockError. The caller has the turn. */
export async function changeGrant(servers: Servers, holding: Holding, change: Change, until: number): Promise<void> {
  const { key, name, owner, token, keeper } = holding;
  holding.mustBeLive();
  const { mode } = change;
  // What the keeper would take over soon it need not, or this does it.
  const wasExpected = keeper?.forget(holding) ?? false;
  const left = Math.max(1, Math.floor(holding.last - now()));
  const isLast = left <= (change.lease ?? holding.lease);
  const lease = isLast ? left : change.lease;
  const keep = isLast ? 0 : change.keep ?? (wasExpected ? holding.keep : undefined);
  if (wasExpected) holding.watch();
  if (lease !== undefined) holding.mayEndIn(lease);
  holding.isEnding = keep === 0;
  const words: Words = ["LOCK.RENEW", key, owner, ...modeWords(mode ?? "exclusive"), ...(lease === undefined ? [] : ["PX", lease]),
    ...(keep === undefined ? [] : ["KEEP", keep]), "TOKEN", token];
  const ask = new Ask();
  try {
    const options = { kind: "renew", name, until, stop: new Stop(), common: holding.common } as const;
    const { reply, sent, ...on } = await servers.ask(key, words, options, ask);
    const set = grantOf(reply)?.lease ?? holding.lease;
    if (keep === 0) holding.keeper?.leave(holding);
    if (keep) holding.keep = keep;
    if (holding.keep && keep !== 0) {
      holding.proved(sent, set);
      if (keep) on.keeper.take(holding, on.line);
      else holding.keeper?.hurry(holding);
    } else {
      holding.setFixed(sent, set);
    }
  } catch (error) {
    if (error instanceof LockLost) holding.lose(error.message, error);
    if (!isOpen(error) && !ask.repeated) holding.goesOn();
    holding.isEnding = false;
    if (keep === 0) holding.keptOn = undefined; // it may not be kept there any more
    // What the call has done to the lease or the keeping is not known: it is kept as before.
    if ((wasExpected || keep === 0 || isOpen(error)) && holding.isLive && holding.keep) void keeper?.adopt(holding);
    throw error;
  }
}
