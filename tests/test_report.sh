#!/usr/bin/env bash
# Pages for a browser: `tarn plan --html` and `tarn report`. Whole, self-contained, readable on a phone.
. tests/support/testing.sh

tarn=$BUILD/tarn
cat >"$directory/net.yaml" <<END
name: '<i>&"x'
data: {type: synthetic, shape: [8, 8, 2], classes: 4, batch: 8, samples: 36, test_samples: 20}
layers:
- conv2d: {channels: 8, kernel: 3, padding: 1}
- relu
- conv2d: {channels: 8, kernel: 3, padding: 1}
- relu
- global_pool
- dense: 4
optimizer: {type: adamw, learning_rate: 1e-3, clip_norm: 1}
train: {epochs: 4, log_every: 2, threads: 1}
END
odd=$directory/'<script>alert(1)</script>&"'

page() {
	/usr/bin/python3 tests/support/check_page.py "$1"
}

plan_page() {
	"$tarn" plan "$directory/net.yaml" memory.budget=100KiB --html "$directory/plan.html"
	page "$directory/plan.html"
	for text in 'Bytes by section' 'The arena over one training step' 'Live bytes against the budget' \
		'Extra time of a step over the budget' 'budget 100.00 KiB' 'optimizer state'; do
		grep -q "$text" "$directory/plan.html"
	done
	# The sections add up to the peak.
	/usr/bin/python3 - "$directory/plan.html" <<-'END'
		import re, sys
		page = open(sys.argv[1]).read()
		shares = [float(x) for x in re.findall(r"<small>([\d.]+) %</small>", page)]
		assert len(shares) >= 5 and abs(sum(shares) - 100) < 1, shares
	END
	fails_with 5 "absent" "$tarn" plan "$directory/net.yaml" --html "$directory/absent/plan.html"
}

unlimited_plan_page() {
	"$tarn" plan configs/peers/resnet20.yaml data.batch=4 --html "$directory/large.html"
	page "$directory/large.html"
	[ "$(wc -c <"$directory/large.html")" -lt 1000000 ]
}

one_run() {
	"$tarn" train "$directory/net.yaml" train.run="$directory/first" >/dev/null
	"$tarn" report "$directory/first" -o "$directory/one.html"
	page "$directory/one.html"
	for text in '"Loss"' '"Accuracy"' '"Learning rate"' '"Gradient norm"' '"Samples a second"' 'highest byte written' \
		'Planned and measured' 'The arena over one training step'; do
		grep -q "$text" "$directory/one.html"
	done
	grep -q "<td>20</td>" "$directory/one.html"
}

# A name that is markup, one run that has not ended, one with numbers that are none.
several_runs() {
	"$tarn" train "$directory/net.yaml" train.run="$odd" optimizer.clip_norm=0 memory.budget=100KiB >/dev/null
	rm "$odd/result.json"
	"$tarn" train "$directory/net.yaml" train.run="$directory/null" device.driver=null >/dev/null
	"$tarn" report "$directory/first" -o "$directory/several.html" "$odd" "$directory/null"
	page "$directory/several.html"
	grep -q '&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;' "$directory/several.html"
	grep -q 'not at its end' "$directory/several.html"
}

bad_runs() {
	fails_with 2 "which run" "$tarn" report -o "$directory/x.html"
	fails_with 2 "where to" "$tarn" report "$directory/first"
	fails_with 5 "metrics.jsonl: cannot open" "$tarn" report "$directory/absent" -o "$directory/x.html"
	cp -r "$directory/first" "$directory/bad"
	sed -i '3s/.*/{"loss": 1}/' "$directory/bad/metrics.jsonl"
	fails_with 6 "metrics.jsonl:3: " "$tarn" report "$directory/bad" -o "$directory/x.html"
	cp "$directory/first/metrics.jsonl" "$directory/bad/metrics.jsonl"
	head -c 1000 "$directory/first/run.plan" >"$directory/bad/run.plan"
	fails_with 6 "run.plan" "$tarn" report "$directory/bad" -o "$directory/x.html"
	fails_with 2 "one too many" "$tarn" report $(yes "$directory/first" | head -9) -o "$directory/x.html"
	[ ! -e "$directory/x.html" ]
	# A line that is being written does not disturb.
	cp "$directory/first/run.plan" "$directory/bad/run.plan"
	printf '{"step": 30, "lo' >>"$directory/bad/metrics.jsonl"
	"$tarn" report "$directory/bad" -o "$directory/half.html"
}

# browser WIDTH FILE: the page's document after its script has run.
browser() {
	timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$directory/profile" \
		--window-size="$1,800" --virtual-time-budget=2000 --dump-dom "file://$2" 2>"$directory/browser.log"
}

# The script makes the element that shows values; a page's own script asks how wide it became and what a pointer shows.
in_a_browser() {
	local file width
	for file in plan one several; do
		for width in 1300 500; do
			sed 's|</body>|<script>"use strict";const r=document.documentElement;r.dataset.fits=r.scrollWidth<=innerWidth;\
const s=document.querySelector("svg.chart"),b=s.getBoundingClientRect();s.dispatchEvent(new PointerEvent("pointermove",\
{clientX:b.left+b.width/2,clientY:b.top+b.height/2}));r.dataset.tip=document.getElementById("tip").textContent;\
</script></body>|' "$directory/$file.html" >"$directory/asked.html"
			browser $width "$directory/asked.html" >"$directory/dom.html"
			grep -q 'data-fits="true"' "$directory/dom.html" || { echo "$file is wider than $width"; return 1; }
			grep -Eq 'data-tip="[^"]*[0-9][^"]* at ' "$directory/dom.html" || { echo "$file: no values"; return 1; }
		done
	done
}

drawn_by_a_browser() {
	timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$directory/profile" \
		--window-size=800,1200 --screenshot="$directory/page.png" "file://$directory/one.html" 2>"$directory/browser.log"
	# A page without content compresses to a few kilobytes.
	[ "$(wc -c <"$directory/page.png")" -gt 30000 ]
}

expect "a plan as a page" plan_page
expect "a plan without budget as a page" unlimited_plan_page
expect "a run as a page" one_run
expect "several runs on one page" several_runs
expect "what is no run is refused" bad_runs
if command -v chromium >/dev/null; then
	expect "a browser shows the pages, wide and narrow" in_a_browser
	expect "a browser draws them" drawn_by_a_browser
else
	skip "a browser shows the pages" "chromium is not installed (apt-get install chromium)"
fi
finish
