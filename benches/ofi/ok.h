/* A call of libfabric that has to succeed: else the program ends with what the code means. */
#pragma once

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                               \
    do {                                                                       \
        long code_ = (long) (call);                                            \
        if (code_ != 0) {                                                      \
            fprintf(stderr, "line %d: %s: %ld (%s)\n", __LINE__, #call, code_, \
                    fi_strerror((int) -code_));                                \
            exit(1);                                                           \
        }                                                                      \
    } while (0)
