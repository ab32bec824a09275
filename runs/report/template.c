#include "runs/report/template.h"

/* The assembler embeds a file in the object; C cannot before #embed. Paths are relative to the top
 * of the tree, where the compiler runs. */
#define EMBED(name, file)                                                                          \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #name "\n"                                                                  \
            ".type " #name ", @object\n" #name ":\n"                                               \
            ".incbin \"" file "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            ".size " #name ", . - " #name "\n"                                                     \
            ".previous\n")

EMBED(xt_template_page, "runs/report/page.html");
EMBED(xt_template_style, "runs/report/page.css");
EMBED(xt_template_script, "runs/report/page.js");
