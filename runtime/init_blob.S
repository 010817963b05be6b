/* init as data: the freestanding program of runtime/init, made before this file. */
	.section .rodata
	.globl nsbox_init_blob
	.hidden nsbox_init_blob
	.balign 16
nsbox_init_blob:
	.incbin NSBOX_INIT_BIN
	.globl nsbox_init_blob_end
	.hidden nsbox_init_blob_end
nsbox_init_blob_end:
	.section .note.GNU-stack,"",%progbits
