# Read by bash as $BASH_ENV, in the box, before it opens the program.
# bash calls a program in its messages, in $0 and in BASH_SOURCE as it was told to
# open it, so it is opened by the name "<code>" from the folder that holds it. The
# first word of the program is a call of nsbox_start (lang.c puts it in front of the
# first line), which goes back and leaves nothing behind.
nsbox_here=$PWD
[[ ${OLDPWD+set} ]] && nsbox_before=$OLDPWD
nsbox_start() {
	cd -- "$nsbox_here" || exit 125
	unset OLDPWD
	[[ ${nsbox_before+set} ]] && OLDPWD=$nsbox_before
	unset nsbox_here nsbox_before
	unset -f nsbox_start
}
cd -- "${BASH_ENV%/*}" || exit 125
unset BASH_ENV
