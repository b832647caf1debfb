/* Empty: BCC brings its own copy of this header. */
