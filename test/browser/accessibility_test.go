package browser

// faults is JavaScript code that returns the accessibility problems of the page: labels, headings, contrast, focus
// order, and so on.
const faults = `(() => {
	const wrong = [];
	const shown = (e) => e.checkVisibility({ checkVisibilityCSS: true }) && e.getClientRects().length > 0;
	const all = (s) => [...document.querySelectorAll(s)].filter(shown);
	const what = (e) => e.outerHTML.slice(0, 120);
	if (!document.documentElement.lang) wrong.push("the page has no language");
	if (!document.title) wrong.push("the page has no title");
	if (all("h1").length !== 1) wrong.push("there are " + all("h1").length + " h1");
	if (all("main").length !== 1) wrong.push("there is no main");
	for (const e of all("input, select")) if (!e.labels.length) wrong.push("no label: " + what(e));
	for (const e of all("button, a, summary")) if (!e.textContent.trim()) wrong.push("no text: " + what(e));
	for (const e of all("a")) if (!e.getAttribute("href")) wrong.push("no href: " + what(e));
	for (const e of all("table")) if (!e.caption) wrong.push("no caption: " + what(e));
	for (const e of all("th")) if (!e.scope) wrong.push("no scope: " + what(e));
	for (const e of all("[tabindex]")) if (e.tabIndex > 0) wrong.push("tabindex: " + what(e));
	for (const e of all("[onclick], [style]")) wrong.push("inline: " + what(e));
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("the id is not unique: " + id);
	let level = 1;
	for (const e of all("h1, h2, h3")) {
		if (+e.tagName[1] > level + 1) wrong.push("a heading is left out before " + what(e));
		level = +e.tagName[1];
	}
	const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
	const light = (c) => c.slice(0, 3).map((v) => v / 255)
		.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
		.reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] === 1) return c;
			if (c[3] > 0) return null; // fading
		}
		return [255, 255, 255];
	};
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let looked = 0;
	for (let n = texts.nextNode(); n && looked < 2000; n = texts.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || !shown(e)) continue;
		const back = behind(e);
		if (!back) continue;
		looked++;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(back)];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) wrong.push("contrast " + contrast.toFixed(1) + ": " + n.data.trim().slice(0, 60));
	}
	if (looked < 5) wrong.push("only " + looked + " texts were looked at");
	const wide = document.documentElement.scrollWidth;
	if (wide > innerWidth) wrong.push("the page is wider than the window: " + wide);
	return [...new Set(wrong)].slice(0, 20);
})()`

// checkAccessibility checks the page in dark and light colours, in a wide and a narrow window.
func checkAccessibility(tb *tab) {
	tb.t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		for _, width := range []int64{400, 1100} {
			tb.emulate(scheme, width, 720)
			for _, fault := range evalAs[[]string](tb, faults) {
				tb.t.Errorf("%s, %s, %d wide: %s", evalAs[string](tb, "location.hash"), scheme, width, fault)
			}
		}
	}
}
