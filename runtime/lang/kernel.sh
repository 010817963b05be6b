# The shell that stays: runs one cell after another, at the top level, so that what a cell
# declares lives on. Run by bash as "<cell>", in the box, as the payload (boot.sh). Speaks
# with the library by descriptor 3, which it moves to 100: a request is a line
# "op id count length..." and the bytes of its words (repl_shell.c), an answer is a frame
# of 4 bytes length and JSON, in ASCII.
# Must: run no cell in a function, where "declare" would be local.
# Mustn't: let a cell or its children have the channel.
exec 100<&3 3<&-
nsbox_count=0 nsbox_flags='' nsbox_stop='' nsbox_status=0

nsbox_send() {
	builtin local LC_ALL=C head
	builtin printf -v head '\\%03o\\%03o\\%03o\\%03o' $((${#1} >> 24)) $((${#1} >> 16 & 255)) \
		$((${#1} >> 8 & 255)) $((${#1} & 255))
	builtin printf "$head%s" "$1" >&100
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
	nsbox_send "{\"id\":$nsbox_id,\"event\":\"done\",\"status\":\"$1\",\"repr\":null,\"value\":null,\
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
	shopt -s extdebug
	set -T
	trap nsbox_halt DEBUG
}

nsbox_halt() {
	[[ " ${FUNCNAME[*]} " == *' source '* ]] && return 2
	return 0
}

nsbox_calm() {
	trap - DEBUG
	set +T
	shopt -u extdebug
}

# One cell's environment on top, and back again.
nsbox_put_env() {
	builtin local pair name
	nsbox_old=()
	for pair in "${nsbox_words[@]:1}"; do
		name=${pair%%=*}
		if [[ ${!name+set} ]]; then
			nsbox_old+=("$name=${!name}")
		else
			nsbox_old+=("$name")
		fi
		builtin export "${pair?}"
	done
}

nsbox_restore_env() {
	builtin local old
	for old in "${nsbox_old[@]}"; do
		if [[ $old == *=* ]]; then
			builtin export "${old?}"
		else
			builtin unset "$old"
		fi
	done
}

nsbox_exec() {
	builtin local cwd=${nsbox_words[0]} has=${nsbox_words[1]} data=${nsbox_words[2]}
	builtin local -i envs=${nsbox_words[3]}
	(
		trap - INT
		((envs == 0)) || export "${nsbox_words[@]:4:envs}"
		if [[ $cwd ]]; then
			cd -- "$cwd" || exit 126
		fi
		if [[ $has ]]; then
			exec < <(base64 -d <<< "$data")
		fi
		exec -- "${nsbox_words[@]:4 + envs}"
	) 100>&- < /dev/null
	nsbox_status=$?
	if [[ $nsbox_stop ]]; then
		nsbox_done_code 130
	else
		nsbox_done ok "\"exit_code\":$nsbox_status,\"error\":null"
	fi
}

nsbox_put() {
	builtin local path=${nsbox_words[0]} mode=${nsbox_words[2]}
	if [[ ${nsbox_words[3]} && $path == */* ]]; then
		mkdir -p -- "${path%/*}/" || { nsbox_fail 'the folder cannot be made'; return; }
	fi
	if base64 -d <<< "${nsbox_words[1]}" > "$path" && { [[ ! $mode ]] || chmod "$mode" -- "$path"; }; then
		nsbox_done ok "\"error\":null,\"exit_code\":null,\"size\":$(stat -c %s -- "$path")"
	else
		nsbox_fail 'the file cannot be written'
	fi
}

nsbox_get() {
	builtin local path=${nsbox_words[0]} most=${nsbox_words[1]} data size mode cut=false
	if [[ ! -f $path || ! -r $path ]]; then
		nsbox_fail 'no regular file that can be read'
		return
	fi
	data=$(head -c "$most" -- "$path" | base64 -w 0)
	builtin read -r size mode <<< "$(stat -L -c '%s %a' -- "$path")"
	((size <= most)) || cut=true
	nsbox_done ok "\"error\":null,\"exit_code\":null,\"size\":$size,\"mode\":$((8#$mode)),\
\"truncated\":$cut,\"data\":\"$data\""
}

nsbox_set() {
	builtin local pair
	for pair in "${nsbox_words[@]}"; do
		builtin declare -g "$pair"
	done
	nsbox_done ok '"error":null,"exit_code":null'
}

# The trap of an interrupt that is pending has run by now.
nsbox_settle() {
	nsbox_done ok '"exit_code":null,"error":null'
}

nsbox_send "{\"event\":\"ready\",\"language\":\"bash\",\"version\":\"${BASH_VERSION%%[^0-9.]*}\"}"
while :; do
	nsbox_read
	nsbox_stop=''
	if [[ $nsbox_op != execute ]]; then
		trap nsbox_interrupt INT
		"nsbox_$nsbox_op"
		trap : INT
		[[ ! $nsbox_stop ]] || nsbox_calm
		continue
	fi
	nsbox_count=$((nsbox_count + 1))
	nsbox_put_env
	nsbox_code=${nsbox_words[0]}
	[[ ! $nsbox_flags ]] || nsbox_code="set -$nsbox_flags; $nsbox_code"
	trap nsbox_interrupt INT
	. /dev/fd/99 99<<< "$nsbox_code" 100>&- < /dev/null
	{
		nsbox_status=$? nsbox_flags=${-//[^eux]/}
		set +eux
	} 2> /dev/null
	trap : INT
	[[ ! $nsbox_stop ]] || nsbox_calm
	nsbox_restore_env
	nsbox_done_code "$nsbox_status"
done
