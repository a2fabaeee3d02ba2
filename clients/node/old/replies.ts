/** Replies, as RESP2 and RESP3 and the client libraries give them. */

/** What LOCK.ACQUIRE and LOCK.RENEW grant. */
export interface GrantReply {
  readonly token: number;
  readonly holds: number;
  readonly lease: number;
}

export function grantOf(reply: unknown): GrantReply | undefined {
  if (!Array.isArray(reply)) return undefined;
  const [token, , holds, lease] = reply as unknown[];
  return { token: Number(token), holds: Number(holds), lease: Number(lease) };
}

/** A map, or the flat array of its fields and values. */
export function fieldsOf(reply: unknown): ReadonlyMap<string, unknown> {
  if (reply instanceof Map) return new Map([...reply].map(([name, value]) => [String(name), value as unknown]));
  if (!Array.isArray(reply)) return new Map(Object.entries(reply ?? {}));
  const flat = reply as unknown[];
  return new Map(flat.flatMap((name, at) => (at % 2 ? [] : [[String(name), flat[at + 1]] as const])));
}
