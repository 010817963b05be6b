/*
 * The program that runs as PID 1 of every box, as bytes. The launcher copies it
 * into a sealed memfd. It is read-only data here and never mapped executable in
 * the launcher.
 */
	.section .rodata
	.balign 16
	.global init_blob
	.hidden init_blob
	.type init_blob, @object
init_blob:
	.incbin INIT_BIN
	.size init_blob, . - init_blob
	.global init_blob_end
	.hidden init_blob_end
init_blob_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
