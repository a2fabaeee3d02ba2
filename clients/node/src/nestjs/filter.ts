/** What clients of a web application get when a lock cannot be acquired. */

import { type ArgumentsHost, Catch, type ExceptionFilter } from "@nestjs/common";
import { LockBusy, LockDeadlock, LockError, LockUnavailable } from "../errors.ts";

/** The reply of express and fastify. */
interface Response {
  status(code: number): Response;
  send(body: unknown): unknown;
}

/**
 * Answers 409 while others hold the lock, 503 while the server cannot be reached, and 500 for other errors of locks. Outside of
 * HTTP it throws the error on.
 *
 * @example
 * ```ts
 * import { NestFactory } from "@nestjs/core";
 * import { LockErrorFilter } from "redis-lock-client/nestjs";
 *
 * const app = await NestFactory.create(AppModule);
 * app.useGlobalFilters(new LockErrorFilter());
 * ```
 */
export class LockErrorFilter implements ExceptionFilter<LockError> {
  /** Nest calls this. */
  catch(error: LockError, host: ArgumentsHost): void {
    if (host.getType() !== "http") throw error;
    const isBusy = error instanceof LockBusy || error instanceof LockDeadlock;
    const statusCode = isBusy ? 409 : error instanceof LockUnavailable ? 503 : 500;
    // The error's message names the key, which may be nobody's business.
    const message = isBusy ? "Conflict" : statusCode === 503 ? "Service Unavailable" : "Internal Server Error";
    host.switchToHttp().getResponse<Response>().status(statusCode).send({ statusCode, message, error: error.name });
  }
}
Catch(LockError)(LockErrorFilter);
