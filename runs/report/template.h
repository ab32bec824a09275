/* The parts of a page, as they lie in page.html, page.css and page.js: NUL-terminated text. */
#ifndef XT_RUNS_REPORT_TEMPLATE_H
#define XT_RUNS_REPORT_TEMPLATE_H

/* @STYLE@, @DATA@ and @SCRIPT@ in it stand for what is put there. */
extern const char xt_template_page[];
extern const char xt_template_style[];
extern const char xt_template_script[];

#endif
