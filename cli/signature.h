/* Signatures of files by ssh-keygen -Y: with a key as ssh-keygen makes them, into FILE.sig. */
#pragma once

#include "base/err.h"

/* Writes PATH.sig with a private key (or a public one whose private half an agent holds). */
enum xt_status xt_signature_make(const char *path, const char *key, struct xt_err *err);
/* XT_ERR_DATA where PATH.sig is missing, or not by this public key of this file. */
enum xt_status xt_signature_check(const char *path, const char *key, struct xt_err *err);
