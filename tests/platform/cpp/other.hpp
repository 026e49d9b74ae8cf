int other(); /* of other.cpp: appends one message, returns its number */
