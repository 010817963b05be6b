# The shell that stays: runs one cell after another, at the top level, so that what a cell
# declares lives on. Run by bash as "<cell>", in the box, as the payload (boot.sh). Speaks
# with the library by descriptor 3, which it moves to 100: a request is a line
# "op id count length..." and the bytes of its words (repl_shell.c), an answer is a frame
# of 4 bytes length and JSON, in ASCII.
# Must: run no cell in a function, where "declare" would be local; name each variable nsbox_*,
# also a local one, which would hide the cell's or be readonly there.
# Mustn't: let a cell or its children have the channel; call by its plain name what a cell may
# have made a function, as cd or ":"; leave an expansion unquoted behind "builtin", where also
# an assignment is split, by the cell's IFS.
exec 100<&3 3<&-
nsbox_count=0 nsbox_flags='' nsbox_stop='' nsbox_status=0 nsbox_sees_traps='' nsbox_traps=''

# Called with 2> /dev/null: where LC_ALL is of no locale, bash says so when it gets it back.
nsbox_send() {
	builtin local LC_ALL=C nsbox_head
	builtin printf -v nsbox_head '\\%03o\\%03o\\%03o\\%03o' "$((${#1} >> 24))" \
		"$((${#1} >> 16 & 255))" "$((${#1} >> 8 & 255))" "$((${#1} & 255))"
	builtin printf "$nsbox_head%s" "$1" >&100
}

nsbox_read() {
	builtin local LC_ALL=C nsbox_sizes nsbox_size nsbox_word
	IFS=' ' builtin read -r -u 100 nsbox_op nsbox_id nsbox_sizes || builtin exit 0
	nsbox_words=()
	IFS=' ' builtin read -r -a nsbox_sizes <<< "$nsbox_sizes"
	for nsbox_size in "${nsbox_sizes[@]}"; do
		nsbox_word=''
		((nsbox_size == 0)) || IFS= builtin read -r -N "$nsbox_size" -u 100 nsbox_word
		nsbox_words+=("$nsbox_word")
	done
}

# $1: status; $2: more members
nsbox_done() {
	nsbox_send 2> /dev/null "{\"id\":$nsbox_id,\"event\":\"done\",\"status\":\"$1\",\"repr\":null,\"value\":null,\
\"mime\":null,\"execution_count\":$nsbox_count${2:+,$2}}"
}

nsbox_done_code() {
	if [[ $nsbox_stop ]]; then
		nsbox_done interrupted "\"exit_code\":130,\"error\":{\"name\":\"Interrupted\",\
\"value\":\"\",\"traceback\":[]}"
	elif (($1)); then
		nsbox_done error "\"exit_code\":$1,\"error\":{\"name\":\"ExitStatus\",\"value\":\"$1\",\
\"traceback\":[]}"
	else
		nsbox_done ok '"exit_code":0,"error":null'
	fi
}

nsbox_fail() {
	nsbox_done error "\"exit_code\":null,\"error\":{\"name\":\"OSError\",\"value\":\"$1\",\
\"traceback\":[]}"
}

# A signal cannot leave a loop: from here on every command of the cell returns.
nsbox_interrupt() {
	nsbox_stop=1
	builtin shopt -s extdebug
	builtin set -T
	builtin trap nsbox_halt DEBUG
}

nsbox_halt() {
	[[ " ${FUNCNAME[*]} " == *' source '* ]] && builtin return 2
	builtin return 0
}

nsbox_calm() {
	builtin trap - DEBUG RETURN
	builtin set +T
	builtin shopt -u extdebug
}

# One cell's environment on top, and back again.
nsbox_put_env() {
	builtin local nsbox_pair nsbox_name
	nsbox_old=()
	for nsbox_pair in "${nsbox_words[@]:1}"; do
		nsbox_name=${nsbox_pair%%=*}
		if [[ ! ${!nsbox_name+set} ]]; then
			nsbox_old+=("$nsbox_name")
		elif [[ $(builtin declare -p "$nsbox_name") =~ ^declare\ -[a-wyzA-Z]*x ]]; then
			nsbox_old+=("$nsbox_name=${!nsbox_name}")
		else
			nsbox_old+=("-$nsbox_name=${!nsbox_name}")
		fi
		builtin export "${nsbox_pair?}"
	done
}

nsbox_restore_env() {
	builtin local nsbox_pair
	for nsbox_pair in "${nsbox_old[@]}"; do
		if [[ $nsbox_pair == -* ]]; then
			builtin export -n "${nsbox_pair#-}"
		elif [[ $nsbox_pair == *=* ]]; then
			builtin export "${nsbox_pair?}"
		else
			builtin unset -v "$nsbox_pair"
		fi
	done
}

nsbox_exec() {
	builtin local -i nsbox_envs="${nsbox_words[3]}"
	(
		builtin trap - INT
		((nsbox_envs == 0)) || builtin export "${nsbox_words[@]:4:nsbox_envs}"
		if [[ ${nsbox_words[0]} ]]; then
			builtin cd -- "${nsbox_words[0]}" || builtin exit 126
		fi
		if [[ ${nsbox_words[1]} ]]; then
			builtin exec -- "${nsbox_words[@]:4 + nsbox_envs}" \
				< <(builtin command -p base64 -d <<< "${nsbox_words[2]}")
		fi
		builtin exec -- "${nsbox_words[@]:4 + nsbox_envs}"
	) 100>&- < /dev/null
	nsbox_status=$?
	if [[ $nsbox_stop ]]; then
		nsbox_done_code 130
	else
		nsbox_done ok "\"exit_code\":$nsbox_status,\"error\":null"
	fi
}

nsbox_put() {
	builtin local nsbox_path="${nsbox_words[0]}" nsbox_mode="${nsbox_words[2]}"
	if [[ ${nsbox_words[3]} && $nsbox_path == */* ]] &&
		! builtin command -p mkdir -p -- "${nsbox_path%/*}/"; then
		nsbox_fail 'the folder cannot be made'
	elif builtin command -p base64 -d <<< "${nsbox_words[1]}" >| "$nsbox_path" &&
		{ [[ ! $nsbox_mode ]] || builtin command -p chmod "$nsbox_mode" -- "$nsbox_path"; }; then
		nsbox_done ok "\"error\":null,\"exit_code\":null,\
\"size\":$(builtin command -p stat -c %s -- "$nsbox_path")"
	else
		nsbox_fail 'the file cannot be written'
	fi
}

nsbox_get() {
	builtin local nsbox_path="${nsbox_words[0]}" nsbox_most="${nsbox_words[1]}" nsbox_data
	builtin local nsbox_size nsbox_mode nsbox_cut=false
	if [[ ! -f $nsbox_path || ! -r $nsbox_path ]]; then
		nsbox_fail 'no regular file that can be read'
		builtin return
	fi
	nsbox_data=$(builtin command -p head -c "$nsbox_most" -- "$nsbox_path" |
		builtin command -p base64 -w 0)
	IFS=' ' builtin read -r nsbox_size nsbox_mode \
		<<< "$(builtin command -p stat -L -c '%s %a' -- "$nsbox_path")"
	((nsbox_size <= nsbox_most)) || nsbox_cut=true
	nsbox_done ok "\"error\":null,\"exit_code\":null,\"size\":$nsbox_size,\
\"mode\":$((8#$nsbox_mode)),\"truncated\":$nsbox_cut,\"data\":\"$nsbox_data\""
}

nsbox_set() {
	builtin local nsbox_pair
	for nsbox_pair in "${nsbox_words[@]}"; do
		builtin declare -g "$nsbox_pair"
	done
	nsbox_done ok '"error":null,"exit_code":null'
}

# The trap of an interrupt that is pending has run by now.
nsbox_settle() {
	nsbox_done ok '"exit_code":null,"error":null'
}

# The loops take a "break" or "continue" of the cell's own, which would be the driver's.
nsbox_send "{\"event\":\"ready\",\"language\":\"bash\",\"version\":\"${BASH_VERSION%%[^0-9.]*}\"}"
while ((1)); do
	nsbox_read 2> /dev/null
	nsbox_stop=''
	if [[ $nsbox_op != execute ]]; then
		builtin trap nsbox_interrupt INT
		"nsbox_$nsbox_op"
		builtin trap 'builtin :' INT
		[[ ! $nsbox_stop ]] || nsbox_calm
	else
		nsbox_count=$((nsbox_count + 1)) nsbox_ran=''
		nsbox_put_env
		nsbox_code=${nsbox_words[0]}
		[[ $nsbox_code != *trap* ]] || nsbox_sees_traps=1
		[[ ! $nsbox_flags ]] || nsbox_code="set -$nsbox_flags; $nsbox_code"
		[[ ! $nsbox_traps ]] || nsbox_code="$nsbox_traps; $nsbox_code"
		builtin trap nsbox_interrupt INT
		# shellcheck disable=SC2034,SC2043,SC2165,SC2167
		for nsbox_once in 1; do for nsbox_once in 1; do for nsbox_once in 1; do
			builtin . /dev/fd/99 99<<< "$nsbox_code" 100>&- < /dev/null
			{ nsbox_ran=$?; } > /dev/null 2>&1
		done; done; done
		{
			nsbox_status=${nsbox_ran:-1} nsbox_flags=${-//[^eux]/}
			builtin set +eux
			# What it costs is a process: only for cells that may have set one.
			[[ ! $nsbox_sees_traps || $nsbox_stop ]] || nsbox_traps=$(builtin trap -p DEBUG RETURN)
			builtin trap - DEBUG RETURN
		} > /dev/null 2>&1
		builtin trap 'builtin :' INT
		[[ ! $nsbox_stop ]] || nsbox_calm
		[[ $nsbox_ran ]] ||
			builtin echo '<cell>: break, continue: only meaningful in a loop' >&2
		nsbox_restore_env
		nsbox_done_code "$nsbox_status"
	fi
done
