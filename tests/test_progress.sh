#!/usr/bin/env bash
# What a training run shows: in a pipe, on terminals of several kinds and widths, quiet and verbose.
. tests/support/testing.sh

tarn=$BUILD/tarn
cat >"$directory/net.yaml" <<END
name: net
data: {type: synthetic, shape: [8, 8, 2], classes: 4, batch: 8, samples: 36, test_samples: 20}
memory: {budget: 1MiB}
layers:
- conv2d: {channels: 8, kernel: 3, padding: 1}
- relu
- global_pool
- dense: 4
optimizer: {type: adamw, learning_rate: 1e-3, clip_norm: 1}
train: {epochs: 4, log_every: 2, threads: 1}
END

# on_terminal COLUMNS [NAME=VALUE ...] -- COMMAND...: runs it on a terminal of its own and prints what that received.
on_terminal() {
	/usr/bin/python3 - "$@" <<-'END'
		import fcntl, os, pty, struct, sys, termios
		split = sys.argv.index("--")
		pid, terminal = pty.fork()
		if pid == 0:
		    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
		    os.environ.pop("NO_COLOR", None)
		    os.environ["TERM"] = "xterm"
		    os.environ.update(pair.split("=") for pair in sys.argv[2:split])
		    os.execvp(sys.argv[split + 1], sys.argv[split + 1:])
		received = b""
		try:
		    while block := os.read(terminal, 65536):
		        received += block
		except OSError:
		    pass
		status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
		sys.stdout.buffer.write(received)
		sys.exit(status)
	END
}

in_a_pipe() {
	"$tarn" train "$directory/net.yaml" >"$directory/pipe.txt"
	! LC_ALL=C grep -q "[^[:print:][:space:]]" "$directory/pipe.txt"
	! grep -q $'\r' "$directory/pipe.txt"
	# Twelve intervals; each line has it all.
	[ "$(grep -c '^epoch [1-4]  step [0-9]*/20  loss [0-9.]*  acc .* images/s  ETA 0:00  rate 0.001  gradient [0-9.]*  memory .* of 1.00 MiB$' \
		"$directory/pipe.txt")" = 12 ]
}

# Lines of intervals are overwritten, those of epochs stay; none is wider than the terminal.
on_a_terminal() {
	local columns
	for columns in 40 80 200; do
		on_terminal $columns -- "$tarn" train "$directory/net.yaml" >"$directory/terminal.txt"
		/usr/bin/python3 - "$directory/terminal.txt" $columns <<-'END'
			import re, sys
			received = open(sys.argv[1], newline="").read()
			columns = int(sys.argv[2])
			lines = re.findall(r"\r(\x1b\[2m)?epoch(.*?)\x1b\[K(\r\n)?", received)
			assert len(lines) == 12, lines
			assert sum(bool(end) for _, _, end in lines) == 4
			for colour, text, _ in lines:
			    shown = "epoch" + re.sub(r"\x1b\[\d*m", "", text)
			    assert colour and "\x1b" not in shown and len(shown) < columns, (len(shown), shown)
			    assert (" of 1.00 MiB" in shown) == (columns == 200), shown
		END
	done
}

without_colours() {
	on_terminal 80 NO_COLOR=1 -- "$tarn" train "$directory/net.yaml" >"$directory/plain.txt"
	grep -q $'\033\[K' "$directory/plain.txt"
	! grep -q $'\033\[[0-9;]*m' "$directory/plain.txt"
	on_terminal 80 TERM=dumb -- "$tarn" train "$directory/net.yaml" >"$directory/dumb.txt"
	! grep -q $'\033' "$directory/dumb.txt"
}

# Errors are marked on a terminal only.
errors() {
	! on_terminal 80 -- "$tarn" train "$directory/net.yaml" memory.budget=1KiB >"$directory/error.txt"
	grep -q $'^\033\[31mtarn:\033\[0m command line: memory.budget' "$directory/error.txt"
	! on_terminal 80 NO_COLOR=1 -- "$tarn" train "$directory/net.yaml" memory.budget=1KiB >"$directory/error.txt"
	grep -q '^tarn: command line: memory.budget' "$directory/error.txt"
	fails_with 3 "tarn: command line" "$tarn" train "$directory/net.yaml" memory.budget=1KiB
}

quiet() {
	"$tarn" train "$directory/net.yaml" --quiet >"$directory/quiet.txt"
	head -n 1 "$directory/quiet.txt" | grep -q '^done in '
	! grep -q 'epoch' "$directory/quiet.txt"
	"$tarn" train "$directory/net.yaml" --quiet --json >"$directory/quiet.json"
	[ "$(wc -l <"$directory/quiet.json")" = 1 ]
}

verbose() {
	"$tarn" train "$directory/net.yaml" --verbose >"$directory/verbose.txt"
	"$tarn" plan "$directory/net.yaml" --explain >"$directory/explain.txt"
	# What plan --explain says, but for the curve, which is not made for a run.
	grep -q "$(grep -m 1 'peak .* at' "$directory/explain.txt" | head -c 40)" "$directory/verbose.txt"
	[ "$(wc -l <"$directory/verbose.txt")" -gt "$(wc -l <"$directory/pipe.txt")" ]
	fails_with 2 "--quiet or --verbose, not both" "$tarn" train "$directory/net.yaml" --quiet --verbose
}

expect "in a pipe: a line an interval, no control characters" in_a_pipe
expect "on a terminal: one line, as wide as it is" on_a_terminal
expect "no colours with NO_COLOR or a dumb terminal" without_colours
expect "errors" errors
expect "--quiet" quiet
expect "--verbose" verbose
finish
