// What the pages add where scripts run: charts to point at, samples to click, completion, history, and newer versions.
'use strict';
(() => {
  const base = document.body.dataset.base;
  const styles = () => getComputedStyle(document.documentElement);
  const color = name => styles().getPropertyValue(name).trim();

  // Panels and Cancel.
  document.addEventListener('click', event => {
    const cancel = event.target.closest('[data-cancel]');
    if (cancel) {
      const box = cancel.closest('.panel, form');
      for (const element of [box, ...box.querySelectorAll('[hx-get]')]) htmx.trigger(element, 'htmx:abort');
    }
    const copy = event.target.closest('[data-copy]');
    if (copy) navigator.clipboard.writeText(copy.dataset.copy).then(() => { copy.textContent = 'Copied'; });
  });
  document.addEventListener('htmx:sendError', event => tell(event, 'The server does not answer. Is snapdb ui still running?'));
  document.addEventListener('htmx:sendAbort', event => tell(event, 'Cancelled.'));
  function tell(event, text) {
    const place = event.target.closest('form') ? document.getElementById('result') : event.target.closest('.panel');
    if (!place) return;
    const line = document.createElement('p');
    line.className = 'empty';
    line.textContent = text;
    if (place.id === 'result') place.replaceChildren(line); else place.append(line);
  }

  // Caches are read again every 5 seconds while the page is visible.
  document.addEventListener('htmx:beforeRequest', event => {
    if (event.target.closest('[data-repeated]') && document.visibilityState !== 'visible') event.preventDefault();
  });

  // Lines: uPlot replaces the picture.
  function lines(figure) {
    const { names, data } = JSON.parse(figure.dataset.lines);
    if (!window.uPlot || data[0].length < 2) return;
    figure.removeAttribute('data-lines');
    const strokes = ['--c0', '--c1', '--c2', '--c3', '--c4', '--c5'].map(color);
    const axis = { stroke: color('--ink'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line') } };
    const wide = Math.max(280, figure.clientWidth || 700);
    figure.replaceChildren();
    new uPlot({
      width: wide, height: 260, scales: { x: { time: false } }, axes: [{ ...axis, incrs: [1, 2, 5].flatMap(n => [...Array(10).keys()].map(e => n * 10 ** e)).sort((a, b) => a - b) }, { ...axis, size: 70 }],
      series: [{ label: 'version' }, ...names.map((name, i) => ({
        label: name, stroke: strokes[i % 6], width: 2, dash: i >= 6 ? [6, 4] : undefined, spanGaps: true,
        paths: uPlot.paths.stepped({ align: 1 }),
      }))],
    }, data, figure);
  }

  // Samples: cytoscape replaces the picture; a click shows the properties of a node or an edge.
  function sample(place) {
    const data = JSON.parse(place.dataset.sample);
    if (!window.cytoscape) return;
    place.removeAttribute('data-sample');
    place.replaceChildren();
    place.classList.add('live');
    const looks = Object.fromEntries(data.node_types.map(t => [t.name, t]));
    const strokes = Object.fromEntries(data.edge_types.map(t => [t.name, t]));
    const shapes = { circle: 'ellipse', square: 'rectangle', wedge: 'vee' };
    const shape = name => shapes[looks[name].shape] ?? looks[name].shape;
    const node = n => ({
      data: { id: `n${n.id}`, properties: n, label: n.key, shape: shape(n.type), color: looks[n.type].color },
      position: { x: n.x, y: n.y }, classes: n.seed ? 'seed' : '',
    });
    const edge = e => ({
      data: { id: `e${e.id}`, properties: e, source: `n${e.source}`, target: `n${e.target}`, color: strokes[e.type].color },
      classes: [e.late && 'late', strokes[e.type].dashes && 'dashed'].filter(Boolean).join(' '),
    });
    const pair = (p, i) => ({
      data: { id: `p${i}`, properties: { ...p, seed_edge: true }, source: `n${p.source}`, target: `n${p.target}`, color: '#7a7a7a' },
      classes: p.negative ? 'pair negative' : 'pair',
    });
    const graph = cytoscape({
      container: place, layout: { name: 'preset' },
      elements: { nodes: data.nodes.map(node), edges: [...data.edges.map(edge), ...data.seed_edges.map(pair)] },
      style: [
        { selector: 'node', style: { label: 'data(label)', 'font-size': 10, width: 16, height: 16, shape: 'data(shape)', 'background-color': 'data(color)', 'text-valign': 'bottom', 'text-margin-y': 2, color: '#1f2328', 'text-max-width': 120, 'text-wrap': 'ellipsis' } },
        { selector: '.seed', style: { width: 28, height: 28, 'border-width': 2, 'border-color': '#1f2328' } },
        { selector: 'edge', style: { width: 1.2, 'line-color': 'data(color)', 'target-arrow-color': 'data(color)', 'target-arrow-shape': 'triangle', 'curve-style': 'bezier', 'arrow-scale': 0.8 } },
        { selector: '.dashed', style: { 'line-style': 'dashed' } },
        { selector: '.pair', style: { 'target-arrow-shape': 'none', width: 2, 'line-style': 'dotted' } },
        { selector: '.late', style: { 'line-color': '#d00000', 'target-arrow-color': '#d00000', width: 3 } },
        { selector: ':selected', style: { 'line-color': '#1d5fa8', 'target-arrow-color': '#1d5fa8', 'background-color': '#1d5fa8', width: 3 } },
        { selector: 'node:selected', style: { width: 30, height: 30 } },
      ],
    });
    graph.fit(undefined, 24);
    const chosen = document.querySelector('.chosen');
    graph.on('select', 'node, edge', event => {
      const { id, x, y, features, ...properties } = event.target.data('properties');
      const shown = Object.entries({ ...properties, ...features }).filter(([, value]) => value !== null && value !== undefined);
      chosen.replaceChildren(...shown.flatMap(([name, value]) => {
        const term = document.createElement('dt'), text = document.createElement('dd');
        term.textContent = name.replace(/_/g, ' ');
        text.textContent = typeof value === 'object' ? JSON.stringify(value) : String(value);
        return [term, text];
      }));
    });
    window.snapdbSample = graph;
  }

  function draw(root) {
    for (const figure of root.querySelectorAll('[data-lines]')) lines(figure);
    for (const place of root.querySelectorAll('[data-sample]')) sample(place);
  }
  document.addEventListener('htmx:load', event => draw(event.target));
  draw(document);

  // A newer version of the database.
  const newer = document.getElementById('newer');
  let first = null;
  async function poll() {
    if (document.visibilityState !== 'visible') return;
    try {
      const answer = await (await fetch(`${base}/version`)).json();
      if (answer.error) { newer.textContent = answer.error; return; }
      first ??= answer.version;
      if (answer.version !== first) {
        const link = document.createElement('a');
        link.href = '';
        link.textContent = `Version ${answer.version} is available`;
        newer.replaceChildren(link);
      } else newer.replaceChildren();
    } catch { newer.textContent = 'The server does not answer.'; }
  }
  setInterval(poll, 2000);
  poll();

  // The editor.
  const form = document.getElementById('sql'), text = document.getElementById('text');
  if (!form) return;
  const took = document.getElementById('took'), list = document.getElementById('completions');
  const picker = document.getElementById('history'), KEY = 'snapdb history ' + document.title;
  let began = 0, names = null, found = [], at = 0;
  form.addEventListener('htmx:beforeRequest', () => { began = performance.now(); took.textContent = ''; remember(text.value); });
  form.addEventListener('htmx:afterRequest', () => { took.textContent = `${((performance.now() - began) / 1000).toFixed(2)} s`; });
  for (const button of form.querySelectorAll('[data-plain]')) {
    button.addEventListener('click', event => {
      event.preventDefault();
      const plain = document.createElement('form');
      plain.method = 'post';
      plain.action = button.formAction;
      for (const [name, value] of [['sql', text.value], ['format', button.value]]) {
        const field = document.createElement('input');
        Object.assign(field, { type: 'hidden', name, value });
        plain.append(field);
      }
      document.body.append(plain);
      plain.submit();
      plain.remove();
    });
  }
  function history() { try { return JSON.parse(localStorage.getItem(KEY) || '[]'); } catch { return []; } }
  function remember(statement) {
    if (!statement.trim()) return;
    localStorage.setItem(KEY, JSON.stringify([statement, ...history().filter(s => s !== statement)].slice(0, 100)));
    shelf();
  }
  function shelf() {
    const known = history();
    picker.closest('label').hidden = !known.length;
    picker.replaceChildren(new Option('', ''), ...known.map(s => new Option(s.replace(/\s+/g, ' ').slice(0, 80), s)));
  }
  picker.addEventListener('change', () => { if (picker.value) text.value = picker.value; text.focus(); });
  shelf();
  const word = () => /[\w.]*$/.exec(text.value.slice(0, text.selectionStart))[0];
  function close() { list.hidden = true; found = []; }
  function mark() { [...list.children].forEach((item, i) => item.setAttribute('aria-selected', String(i === at))); list.children[at]?.scrollIntoView({ block: 'nearest' }); }
  function take(name) {
    const start = text.selectionStart - word().length;
    text.setRangeText(name, start, text.selectionStart, 'end');
    close();
    text.focus();
  }
  async function complete() {
    names ??= await (await fetch(`${base}/names`)).json();
    const start = word().toLowerCase();
    found = Array.isArray(names) ? names.filter(n => n.toLowerCase().startsWith(start) && n !== word()).slice(0, 50) : [];
    if (!start || !found.length) { close(); return; }
    if (found.length === 1) { take(found[0]); return; }
    at = 0;
    list.replaceChildren(...found.map(name => {
      const item = document.createElement('li');
      item.setAttribute('role', 'option');
      item.textContent = name;
      item.addEventListener('mousedown', event => { event.preventDefault(); take(name); });
      return item;
    }));
    list.hidden = false;
    mark();
  }
  text.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); return; }
    if (event.key === ' ' && event.ctrlKey) { event.preventDefault(); complete(); return; }
    if (list.hidden) return;
    if (event.key === 'Escape') close();
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') { event.preventDefault(); at = (at + (event.key === 'ArrowDown' ? 1 : found.length - 1)) % found.length; mark(); }
    else if (event.key === 'Enter' || event.key === 'Tab') { event.preventDefault(); take(found[at]); }
    else if (event.key.length === 1) close();
  });
})();
