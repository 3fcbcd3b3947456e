package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

// interruptedCode is what a shell returns for a program that SIGINT ended (bash(1)).
const interruptedCode = 130

// console says what happens to its terminal: its size whenever that changes, the lines that are typed, and an
// interruption, with which it ends. The line "exit N" ends it too.
func console([]string) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	typed := make(chan string)
	go func() {
		defer close(typed)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			typed <- strings.TrimSpace(lines.Text())
		}
	}()

	looks := time.NewTicker(20 * time.Millisecond)
	defer looks.Stop()
	columns, lines := 0, 0
	for {
		c, l, err := terminalSize()
		if err != nil {
			return fmt.Errorf("the size of the terminal: %w", err)
		}
		if c != columns || l != lines {
			columns, lines = c, l
			fmt.Printf("size %dx%d\n", columns, lines)
		}
		select {
		case <-looks.C:
		case <-interrupted:
			fmt.Println("interrupted")
			os.Exit(interruptedCode)
		case line, open := <-typed:
			if !open {
				return nil
			}
			if word, code, _ := strings.Cut(line, " "); word == "exit" {
				n, err := strconv.Atoi(code)
				if err != nil {
					return err
				}
				os.Exit(n)
			}
			fmt.Printf("said %q\n", line)
		}
	}
}
