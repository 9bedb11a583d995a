/** The part of the stub that computes the permissions of the client's verbs, for tests. */
import { CLIENT_VARIABLES } from "../../src/permissions/variables.ts";
import script from "./client_permissions.sh" with { type: "text" };

export function clientPermissions(): string {
  return script.replace("@CLIENT_VARIABLES@", CLIENT_VARIABLES.join(","));
}
