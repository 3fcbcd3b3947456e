// The search of the site, and the menu on narrow screens. The index is a script, so that pages that are opened as files can read it.
"use strict";
const top_ = document.body.dataset.top;
const field = document.getElementById("search");
const results = document.getElementById("results");

// load fetches the index once, when somebody searches.
let loading;
function load() {
	loading ??= new Promise((resolve) => {
		const script = document.createElement("script");
		script.src = top_ + "search-index.js";
		script.onload = () => resolve(window.searchIndex.map((e) => ({ ...e, title: (e.p + " " + e.h).toLowerCase(), low: e.t.toLowerCase() })));
		document.head.append(script);
	});
	return loading;
}

// score says how well an entry fits: each word has to be there, as the beginning of a word best.
function score(e, words) {
	let sum = 0;
	for (const w of words) {
		const inTitle = e.title.indexOf(w), inText = e.low.indexOf(w);
		if (inTitle < 0 && inText < 0) return 0;
		const begins = (text, at) => at >= 0 && (at === 0 || !/[a-z0-9]/.test(text[at - 1])) ? 2 : 1;
		sum += inTitle >= 0 ? 10 * begins(e.title, inTitle) : begins(e.low, inText);
	}
	return sum * (2 + e.w);
}

// around returns the part of a text in which a word stands.
function around(text, word) {
	const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
	return (at > 0 ? "…" : "") + text.slice(at, at + 140);
}

async function search() {
	const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
	if (words.length === 0) {
		results.hidden = true;
		return;
	}
	const index = await load();
	const best = index.map((e) => [score(e, words), e]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]).slice(0, 20);
	results.replaceChildren(...best.map(([, e]) => {
		const item = document.createElement("li"), link = document.createElement("a");
		const name = document.createElement("b"), text = document.createElement("small");
		link.href = top_ + e.u;
		name.textContent = e.h === e.p ? e.p : e.p + " › " + e.h;
		text.textContent = around(e.t, words[0]);
		link.append(name, text);
		item.append(link);
		return item;
	}));
	if (best.length === 0) results.innerHTML = "<li><small>Nothing is found.</small></li>";
	results.hidden = false;
}

field.addEventListener("focus", load);
field.addEventListener("input", search);
document.addEventListener("keydown", (e) => {
	const links = [...results.querySelectorAll("a")];
	const at = links.indexOf(document.activeElement);
	if (e.key === "/" && document.activeElement !== field) {
		e.preventDefault();
		field.focus();
	} else if (e.key === "Escape") {
		results.hidden = true;
	} else if (e.key === "Enter" && document.activeElement === field && links.length > 0) {
		location.href = links[0].href;
	} else if (!results.hidden && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
		e.preventDefault();
		(links[at + (e.key === "ArrowDown" ? 1 : -1)] ?? field).focus();
	}
});
document.addEventListener("click", (e) => {
	if (!e.target.closest(".search") || e.target.closest("#results a")) results.hidden = true;
});

const menu = document.getElementById("menu"), contents = document.getElementById("contents");
menu.addEventListener("click", () => menu.setAttribute("aria-expanded", contents.classList.toggle("open")));
document.querySelector("#contents [aria-current]")?.scrollIntoView({ block: "nearest" });
