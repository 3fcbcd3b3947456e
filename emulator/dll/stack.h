#ifndef STACK_H
#define STACK_H

/* For DllMain, when a thread begins. */
void stack_begins(void);

#endif
