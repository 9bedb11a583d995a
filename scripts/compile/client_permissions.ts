/** The part of the stub that says what verbs of the client may do, as the stub has it. */
import { CLIENT_VARIABLES } from "../../src/permissions/variables.ts";
import script from "./client_permissions.sh" with { type: "text" };

export function clientPermissions(): string {
  return script.replace("@CLIENT_VARIABLES@", CLIENT_VARIABLES.join(","));
}
