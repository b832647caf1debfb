# SPDX-License-Identifier: Apache-2.0
# Functions of the maintainer scripts of both packages, in POSIX sh; systemd is optional.
program=/usr/bin/writewise
python=/usr/bin/python3
bundle=/usr/lib/writewise
state=/var/lib/writewise
wait_s=${WRITEWISE_WAIT_S:-600}
recovery=writewise-recover.service

say() { echo "writewise: $*"; }
fail() {
    say "$1" >&2
    echo "  → $2" >&2
    exit 1
}

has_journal() { [ -n "$(find "$state/" /run/writewise/ -name '*.journal' 2>/dev/null)" ]; }

# Each program that changes the host holds an flock, which the kernel drops when it ends.
wait_for_writers() {
    for lock in "$state"/*.lock; do
        [ -f "$lock" ] || continue
        flock --nonblock "$lock" true && continue
        say "waiting at most $wait_s s for: $(cat "$lock")"
        flock --timeout "$wait_s" "$lock" true ||
            fail "still running on this host: $(cat "$lock")" \
                "wait for its end, or stop it with SIGTERM (it restores its changes); then try again"
    done
}

can_run() { "$program" --version >/dev/null 2>&1; }

# If the installed version does not start, the new version restores when it is next used.
restore_interrupted_if_possible() {
    if has_journal && ! can_run; then
        say "the installed version does not start: run 'writewise rollback --interrupted' after the upgrade" >&2
    else
        restore_interrupted
    fi
}

# After the removal, nothing could restore the host.
require_program_for_journals() {
    ! has_journal || can_run ||
        fail "the installed version does not start, and $state has a journal" \
            "install a version that starts, or restore the values in $state/*.journal by hand and delete these files; then try again"
}

restore_interrupted() {
    has_journal || return 0
    "$program" rollback --interrupted ||
        fail "cannot restore what a killed run left" \
            "fix the cause above, or run 'writewise rollback --give-up'; then try again"
}

# Nobody could end a trial period or take a lab down later.
end_trial_and_lab() {
    # The timer, or once it has elapsed the service, which tries again while a lock is held.
    if [ -e /run/systemd/transient/writewise-revert.timer ] ||
        [ -e /run/systemd/transient/writewise-revert.service ]; then
        "$program" rollback || fail "cannot end the trial period" "fix the cause above; then try again"
    fi
    if [ -e "$state/lab.journal" ]; then
        "$program" lab down || fail "cannot remove the lab" "fix the cause above; then try again"
    fi
}

# Removes the unit of `--install-recovery`, which would start the removed program.
remove_recovery() {
    unit=/etc/systemd/system/$recovery
    grep -qs "^ExecStart=$program " "$unit" || return 0
    rm -f "$unit" "/etc/systemd/system/multi-user.target.wants/$recovery"
    [ ! -d /run/systemd/system ] || systemctl daemon-reload || true
    say "removed $unit, which starts the removed program"
}

report_what_stays() {
    files=$(ls /etc/sysctl.d/90-writewise.conf /etc/sysctl.d/99-writewise.conf 2>/dev/null) || true
    [ -n "$files" ] || has_journal || return 0
    "$program" status || true
    say "applied changes stay. To undo them later, install writewise and run 'writewise rollback'," \
        "or restore the values in $state/applied.journal by hand"
}

remove_bytecode() { find "$bundle" -type d -name __pycache__ -prune -exec rm -rf {} +; }

compile_bundle() {
    remove_bytecode
    "$python" -I -m compileall -q "$bundle/lib" || true # without it, Writewise only starts slower
}
