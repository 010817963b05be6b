# The shell that stays: runs one cell after another, at the top level, so that what a cell
# declares lives on. Run by bash as "<cell>", in the box, as the payload (boot.sh). Speaks
# with the library by descriptor 3: a request is what repl_shell.c writes, an answer is a
# frame of 4 bytes length and JSON, all of it in ASCII, as a cell may choose any locale. What
# the host answers to a call comes by descriptor 0, a line each.
# Must: run no cell in a function, where "declare" would be local; find commands before a
# cell changes PATH; say "builtin" and "nsbox_" throughout, for functions and constants of
# a cell's (one named "builtin" is its end); quote, for IFS is a cell's, and behind "builtin"
# also assignments are split.
# Mustn't: let programs have the channel.
exec 99<> /dev/null 100<&3 3<&- 102<&99 104<&0 0<&99 109>&1 111>&2
hash base64 chmod find flock head mkdir stat 2> /dev/null
nsbox_base64=${BASH_CMDS[base64]} nsbox_chmod=${BASH_CMDS[chmod]} nsbox_find=${BASH_CMDS[find]}
nsbox_flock=${BASH_CMDS[flock]} nsbox_head=${BASH_CMDS[head]} nsbox_mkdir=${BASH_CMDS[mkdir]} nsbox_stat=${BASH_CMDS[stat]}
nsbox_asks='' nsbox_count=0 nsbox_flags='' nsbox_pipefail='' nsbox_posix='' nsbox_runs='' nsbox_sees_traps='' nsbox_status=0
nsbox_stop='' nsbox_traps=''

nsbox_send() {
	builtin local nsbox_size
	builtin printf -v nsbox_size '\\%03o\\%03o\\%03o\\%03o' "$((${#1} >> 24))" \
		"$((${#1} >> 16 & 255))" "$((${#1} >> 8 & 255))" "$((${#1} & 255))"
	builtin printf "$nsbox_size%s" "$1" >&101 || builtin kill -KILL $$
}

# $1: a request's word, whose bytes other than plain ASCII are written for printf %b
nsbox_read_word() {
	builtin local nsbox_size
	nsbox_word=''
	builtin read -r -N 9 -u 101 nsbox_size || builtin exit 0
	((nsbox_size == 0)) || builtin read -r -N "$nsbox_size" -u 101 nsbox_word || builtin exit 0
	[[ $nsbox_word != *\\* ]] || builtin printf -v nsbox_word %b "$nsbox_word"
}

nsbox_read() {
	builtin local nsbox_n
	nsbox_words=()
	nsbox_read_word
	nsbox_op=$nsbox_word
	nsbox_read_word
	nsbox_id=$nsbox_word
	nsbox_read_word
	for ((nsbox_n = nsbox_word; nsbox_n > 0; nsbox_n--)); do
		nsbox_read_word
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

# $1: more members
nsbox_done_op() {
	nsbox_done ok "\"exit_code\":null,\"error\":null${1:+,$1}"
}

nsbox_fail() {
	if [[ $nsbox_stop ]]; then
		nsbox_done_code 130
	else
		nsbox_done error "\"exit_code\":null,\"error\":{\"name\":\"OSError\",\"value\":\"$1\",\
\"traceback\":[]}"
	fi
}

# A signal cannot leave a loop: from here on every command of the cell returns.
nsbox_interrupt() {
	[[ $nsbox_stop || $- == *T* ]] || nsbox_stop=T
	nsbox_stop+=1
	builtin shopt -s extdebug
	builtin set -T
	builtin trap nsbox_halt DEBUG
}

nsbox_halt() {
	builtin local nsbox_frame
	for nsbox_frame in "${FUNCNAME[@]}"; do
		[[ $nsbox_frame != source ]] || builtin return 2
	done
	builtin return 0
}

# $1: NAME=VALUE. Not by "declare" or "export", which run the text of an array.
nsbox_assign() {
	builtin printf -v "${1%%=*}" %s "${1#*=}"
}

# One cell's environment on top, and back again.
nsbox_put_env() {
	builtin local nsbox_pair nsbox_name
	nsbox_old=()
	for nsbox_pair in "${nsbox_words[@]:2}"; do
		nsbox_name=${nsbox_pair%%=*}
		if [[ ${!nsbox_name+set} ]]; then
			nsbox_old+=("${!nsbox_name@a}=$nsbox_name=${!nsbox_name}")
		else
			nsbox_old+=("-=$nsbox_name")
		fi
		nsbox_assign "$nsbox_pair" && builtin export "${nsbox_pair%%=*}"
	done
}

nsbox_restore_env() {
	builtin local nsbox_pair nsbox_how
	for nsbox_pair in "${nsbox_old[@]}"; do
		nsbox_how=${nsbox_pair%%=*} nsbox_pair=${nsbox_pair#*=}
		if [[ $nsbox_how == - ]]; then
			builtin unset -v "$nsbox_pair"
			continue
		fi
		nsbox_assign "$nsbox_pair"
		[[ $nsbox_how == *x* ]] || builtin export -n "${nsbox_pair%%=*}"
	done
}

nsbox_exec() {
	builtin local -i nsbox_envs="${nsbox_words[3]}"
	(
		builtin trap - INT
		for nsbox_pair in "${nsbox_words[@]:4:nsbox_envs}"; do
			nsbox_assign "$nsbox_pair" && builtin export "${nsbox_pair%%=*}"
		done
		if [[ ${nsbox_words[0]} ]]; then
			builtin cd -- "${nsbox_words[0]}" || builtin exit 126
		fi
		if [[ ${nsbox_words[1]} ]]; then
			builtin exec -- "${nsbox_words[@]:4 + nsbox_envs}" \
				< <("$nsbox_base64" -d <<< "${nsbox_words[2]}")
		fi
		builtin exec -- "${nsbox_words[@]:4 + nsbox_envs}"
	) < /dev/null
	nsbox_status=$?
	if [[ $nsbox_stop ]]; then
		nsbox_done_code 130
	else
		nsbox_done ok "\"exit_code\":$nsbox_status,\"error\":null"
	fi
}

nsbox_put() {
	builtin local nsbox_path="${nsbox_words[0]}" nsbox_mode="${nsbox_words[2]}" nsbox_size
	if [[ ${nsbox_words[3]} && $nsbox_path == */* ]]; then
		"$nsbox_mkdir" -p -- "${nsbox_path%/*}/" || { nsbox_fail 'the folder cannot be made'; builtin return; }
	fi
	if [[ -e $nsbox_path && ! -f $nsbox_path ]]; then # a pipe without a reader would hold us up
		nsbox_fail 'no regular file'
	elif "$nsbox_base64" -d <<< "${nsbox_words[1]}" >| "$nsbox_path" &&
		{ [[ ! $nsbox_mode ]] || "$nsbox_chmod" "$nsbox_mode" -- "$nsbox_path"; } &&
		nsbox_size=$("$nsbox_stat" -L -c %s -- "$nsbox_path"); then
		nsbox_done_op "\"size\":$nsbox_size"
	else
		nsbox_fail 'the file cannot be written'
	fi
}

nsbox_get() {
	builtin local nsbox_path="${nsbox_words[0]}" nsbox_most="${nsbox_words[1]}" nsbox_data nsbox_state nsbox_cut=false
	if [[ ! -f $nsbox_path || ! -r $nsbox_path ]]; then
		nsbox_fail 'no regular file that can be read'
		builtin return
	fi
	if nsbox_data=$("$nsbox_head" -c "$nsbox_most" -- "$nsbox_path" | "$nsbox_base64" -w 0) &&
		nsbox_state=$("$nsbox_stat" -L -c '%s %a' -- "$nsbox_path"); then
		((${nsbox_state% *} <= nsbox_most)) || nsbox_cut=true
		nsbox_done_op "\"size\":${nsbox_state% *},\"mode\":$((8#${nsbox_state#* })),\
\"truncated\":$nsbox_cut,\"data\":\"$nsbox_data\""
	else
		nsbox_fail 'the file cannot be read'
	fi
}

# The library takes the lines apart (repl_shell.c): a name may be anything but NUL and /.
nsbox_list() {
	builtin local nsbox_path="${nsbox_words[0]}" nsbox_data
	[[ $nsbox_path == /* || ! $nsbox_path ]] || nsbox_path=./$nsbox_path
	if [[ ! -d $nsbox_path || ! -r $nsbox_path || ! -x $nsbox_path ]]; then
		nsbox_fail 'no folder that can be read'
	elif nsbox_data=$(
		builtin set -o pipefail
		"$nsbox_find" -H "$nsbox_path/" -mindepth 1 -maxdepth 1 -printf '%y %s %m %T@ %f\0' |
			"$nsbox_base64" -w 0); then
		nsbox_done_op "\"listing\":\"$nsbox_data\""
	else
		nsbox_fail 'the folder cannot be listed: that takes find of GNU'
	fi
}

nsbox_set() {
	builtin local nsbox_pair nsbox_name
	for nsbox_pair in "${nsbox_words[@]}"; do
		nsbox_name=${nsbox_pair%%=*}
		[[ ${!nsbox_name@a} != *[aA]* ]] || builtin unset -v "$nsbox_name"
		nsbox_assign "$nsbox_pair" || { nsbox_fail "$nsbox_name cannot be set"; builtin return; }
	done
	nsbox_done_op
}

# $1: a name of the host's; then words. Prints what it answers. One process at a time asks: the
# answers come by one descriptor. It is a process of its own, for what it changes and opens.
nsbox_call() (
	{ builtin set +aefkuvxCET +o posix; } 2>&103
	exec 118< "/proc/$$/fd/255" && "$nsbox_flock" 118 || builtin exit 125
	builtin shopt -u extdebug
	builtin trap - DEBUG ERR RETURN
	nsbox_call=$((BASHPID << 20 | RANDOM)) nsbox_words=''
	(($# < 2)) || nsbox_words=$(builtin printf '%s\0' "${@:2}" | "$nsbox_base64" -w 0) || builtin exit 125
	nsbox_send "{\"id\":$nsbox_id,\"event\":\"call\",\"call\":$nsbox_call,\"name\":\"$1\",\"words\":\"$nsbox_words\"}"
	while builtin read -r -u 105; do
		case $REPLY in
		"$nsbox_call none "*) builtin exit 0 ;;
		"$nsbox_call text "*) builtin printf '%b\n' "${REPLY#* * }" && builtin exit 0 ;;
		"$nsbox_call raw "*) builtin printf %b "${REPLY#* * }" && builtin exit 0 ;;
		"$nsbox_call error "*) builtin printf '%b\n' "${REPLY#* * }" >&2; builtin exit 1 ;;
		"$nsbox_call "*) builtin exit 1 ;;
		esac
	done
	builtin exit 125
)

# "read" asks the host where it would read the empty input of a cell.
nsbox_take_input() {
	builtin declare -F read >&103 || nsbox_asks=1
	[[ ! $nsbox_asks ]] || read() {
		nsbox_find_prompt "$@" || { builtin read "$@"; builtin return; }
		nsbox_line=$(nsbox_call input "$nsbox_prompt") || builtin return 1
		builtin read "$@" <<< "$nsbox_line"
	}
}

nsbox_leave_input() {
	builtin unset -f read
	nsbox_asks=''
}

nsbox_find_prompt() {
	builtin local OPTIND=1 OPTARG nsbox_option
	nsbox_prompt=''
	[[ /dev/fd/0 -ef /dev/fd/103 ]] || builtin return 1
	while builtin getopts :ersa:d:i:n:N:p:t:u: nsbox_option; do
		case $nsbox_option in
		p) nsbox_prompt=$OPTARG ;;
		u) [[ $OPTARG == 0 ]] || builtin return 1 ;;
		'?' | :) builtin return 1 ;; # it says what is wrong
		*) ;;
		esac
	done
}

nsbox_tools() {
	builtin local nsbox_name
	if [[ ! $nsbox_flock ]]; then
		nsbox_fail 'functions of the host take flock of util-linux'
		builtin return
	fi
	for nsbox_name in "${nsbox_words[@]}"; do
		builtin eval "$nsbox_name() { nsbox_call $nsbox_name \"\$@\"; }" ||
			{ nsbox_fail "$nsbox_name cannot be defined"; builtin return; }
	done
	nsbox_done_op
}

# The trap of an interrupt that is pending has run by now.
nsbox_settle() {
	nsbox_done_op
}

# All but cells. A cell that closed its output has not closed that of the next one.
nsbox_next() {
	while ((1)); do
		[[ -e /dev/fd/1 ]] || exec >&110
		[[ -e /dev/fd/2 ]] || exec 2>&112
		nsbox_read
		nsbox_stop=''
		builtin trap nsbox_interrupt INT
		[[ $nsbox_op != execute ]] || builtin break
		"nsbox_$nsbox_op"
		builtin trap 'builtin :' INT
		[[ ! $nsbox_stop ]] || nsbox_calm
	done
	nsbox_count=$((nsbox_count + 1)) nsbox_runs=1 nsbox_ended=''
	nsbox_put_env
	nsbox_code=${nsbox_words[0]}
	[[ ! ${nsbox_words[1]} ]] || nsbox_take_input
	nsbox_words=()
	[[ $nsbox_code != *trap* ]] || nsbox_sees_traps=1
	[[ ! $nsbox_traps ]] || nsbox_code="$nsbox_traps; $nsbox_code"
	[[ ! $nsbox_posix ]] || nsbox_code="builtin set -o posix; $nsbox_code"
	[[ ! $nsbox_pipefail ]] || nsbox_code="builtin set -o pipefail; $nsbox_code"
	[[ ! $nsbox_flags ]] || nsbox_code="builtin set -$nsbox_flags; $nsbox_code"
}

nsbox_calm() {
	builtin shopt -u extdebug
	builtin trap - DEBUG
	builtin set +T
}

# $1: $? of a cell; $2: $-; $3: the options. Those that would change what we do are off until
# the next cell.
nsbox_end() {
	builtin set +aefkuvxCET +o posix +o pipefail
	nsbox_status=$1 nsbox_flags=${2//[!aefkuvxCET]/} nsbox_pipefail='' nsbox_posix=''
	[[ $3 != *pipefail* ]] || nsbox_pipefail=1
	[[ $3 != *posix* ]] || nsbox_posix=1
	[[ $nsbox_stop != T* ]] || nsbox_flags=${nsbox_flags//T/} # it was ours
	nsbox_ended=1
}

nsbox_answer() {
	[[ ! $nsbox_stop ]] || nsbox_calm
	nsbox_restore_env
	[[ ! $nsbox_asks ]] || nsbox_leave_input
	nsbox_done_code "$nsbox_status"
}

# Evaluated and not called, for in a function "declare" would be local. A cell's own "break" or
# "continue" leaves the loop around it, or, of many levels, comes to the head of this one, or
# ends this one: then the rest of the cells is one evaluation deeper. Before its first cell
# stands what ends one, as of the others: a trap of DEBUG sees each command outside of it.
# shellcheck disable=SC2034,SC2043,SC2317,SC2329
nsbox_turns() {
	while {
		if [[ $nsbox_runs && ! $nsbox_ended ]]; then
			nsbox_end 1 "$-" "$SHELLOPTS"
			builtin echo 'break, continue: only meaningful in a loop' >&112
		fi
		# What it costs is a process: only where a cell may have set one.
		[[ ! $nsbox_sees_traps || $nsbox_stop ]] ||
			nsbox_traps=$(builtin trap -p DEBUG RETURN)
		builtin trap - DEBUG RETURN
		builtin trap 'builtin :' INT
	} >&103 2>&103; do
		[[ ! $nsbox_runs ]] || nsbox_answer
		nsbox_next
		for nsbox_once in 1; do
			builtin . /dev/fd/99 99<<< "$nsbox_code"
			{ nsbox_end "$?" "$-" "$SHELLOPTS"; } >&103 2>&103
		done
	done
	builtin eval "$nsbox_turns"
}
nsbox_turns=$(declare -f nsbox_turns)
nsbox_turns=${nsbox_turns#*')'}

# Under these redirections 101, 103, 105, 110 and 112 are what 100, 102, 104, 1 and 2 were, and
# closed on exec: that is how bash keeps what it is to restore. 103 is /dev/null. To open that
# would make it the output of a cell that closed its own.
{
	exec 99<&- 100<&- 102<&- 104<&- 109>&- 111>&-
	nsbox_send "{\"event\":\"ready\",\"language\":\"bash\",\"version\":\"${BASH_VERSION%%[^0-9.]*}\"}"
	eval "$nsbox_turns"
} 100<&99 102<&99 104<&99 1>&109 2>&111
