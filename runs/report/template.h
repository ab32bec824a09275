/* The contents of page.html, page.css and page.js: NUL-terminated text. */
#pragma once

/* @STYLE@, @DATA@ and @SCRIPT@ are its placeholders. */
extern const char xt_template_page[];
extern const char xt_template_style[];
extern const char xt_template_script[];
