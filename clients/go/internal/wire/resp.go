package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ServerError is an error reply.
type ServerError string

func (e ServerError) Error() string { return string(e) }

var errProtocol = errors.New("this is no RESP2")

// A reply to a lock command is short; a longer one than this is not Redis.
const longest = 64 << 20

// appendCommand encodes a command: strings and integers.
func appendCommand(to []byte, command []any) []byte {
	to = appendHead(to, '*', len(command))
	for _, word := range command {
		switch word := word.(type) {
		case string:
			to = append(appendHead(to, '$', len(word)), word...)
		case int:
			to = appendNumber(to, int64(word))
		case int64:
			to = appendNumber(to, word)
		default:
			panic(fmt.Sprintf("wire: %T in a command", word))
		}
		to = append(to, '\r', '\n')
	}
	return to
}

func appendHead(to []byte, kind byte, length int) []byte {
	to = strconv.AppendInt(append(to, kind), int64(length), 10)
	return append(to, '\r', '\n')
}

func appendNumber(to []byte, number int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], number, 10)
	return append(appendHead(to, '$', len(text)), text...)
}

// readReply gives an int64, a string, a []any, nil, or a ServerError.
func readReply(from *bufio.Reader) (any, error) {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errProtocol
	}
	text := string(line[1 : len(line)-2])
	switch line[0] {
	case '+':
		return text, nil
	case '-':
		return ServerError(text), nil
	case ':':
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errProtocol
		}
		return number, nil
	}
	length, err := strconv.Atoi(text)
	if err != nil || length < -1 || length > longest {
		return nil, errProtocol
	}
	switch {
	case length == -1:
		return nil, nil
	case line[0] == '$':
		bulk := make([]byte, length+2)
		_, err := io.ReadFull(from, bulk)
		return string(bulk[:length]), err
	case line[0] == '*':
		parts := make([]any, 0, min(length, 1024))
		for range length {
			part, err := readReply(from)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
		return parts, nil
	}
	return nil, errProtocol
}
