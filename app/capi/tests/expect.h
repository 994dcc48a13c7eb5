/* A call's result against what its manual promises. */
#ifndef WEEVER_TESTS_EXPECT_H
#define WEEVER_TESTS_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#include "weever.h"

/* Ends the program with line, call and result unless the result is as expected. */
#define EXPECT(result, expected)                                                                  \
    do {                                                                                          \
        long found_ = (long)(result), wanted_ = (long)(expected);                                 \
        if (found_ != wanted_) {                                                                  \
            fprintf(stderr, "line %d: %s is %ld, not %ld (%s)\n", __LINE__, #result, found_,      \
                    wanted_, weever_error());                                                     \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#endif
