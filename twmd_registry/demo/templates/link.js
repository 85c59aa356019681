(...values) => {
  const link = new URL(location.href);
  {{ names|json|safe }}.forEach((name, i) => {
    const shown = name.endsWith("2") && !values[3] ? "" : String(values[i] ?? "");
    if (["", "0", "false", "preset"].includes(shown)) link.searchParams.delete(name);
    else link.searchParams.set(name, shown);
  });
  history.replaceState(null, "", link);
  return { __type__: "update", visible: true, value: link.href };
}
