/** A run's command, and what is known of its code. */
import { commandText } from "../../../runs/code_facts.ts";
import { answer, param, runApi } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { Copied, Terms } from "../parts/parts.tsx";
import { type ComponentChildren, useEffect, useState } from "../parts/preact.ts";

export function Command({ id }: { id: string }) {
  const [facts, setFacts] = useState<(readonly [string, ComponentChildren])[]>([]);
  useEffect(() =>
    void attempt(async () => {
      const [{ text }, code] = await Promise.all([
        answer(runApi.config.$get({ ...param(id), query: {} })),
        answer(runApi.code.$get(param(id))),
      ]);
      const command = commandText(JSON.parse(text));
      setFacts([
        ["Command", <Copied key="command" text={command} what="the command" />],
        ...code.facts.filter(({ name }) => name !== "command").map(({ name, text }) =>
          [name.charAt(0).toUpperCase() + name.slice(1), text] as const
        ),
      ]);
    }), [id]);
  return <Terms kind="details" of={facts} />;
}
