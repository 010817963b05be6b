// A client with Go's own resolver and raw system calls, without libc: goclient HOST PORT
// prints the first line of a server's answer to a request for /, or "error". goclient
// raw ADDRESS PORT connects with the system call alone and prints "ok" or the errno.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

func raw(address, port string) {
	number, _ := strconv.Atoi(port)
	to := syscall.SockaddrInet4{Port: number}
	copy(to.Addr[:], net.ParseIP(address).To4())
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Connect(fd, &to)
	}
	if errno, ok := err.(syscall.Errno); ok {
		fmt.Printf("errno=%d\n", int(errno))
		return
	}
	fmt.Println("ok")
}

func ask(host, port string) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), 20*time.Second)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	line, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Print(line)
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "raw" {
		raw(os.Args[2], os.Args[3])
	} else if len(os.Args) == 3 {
		ask(os.Args[1], os.Args[2])
	} else {
		os.Exit(2)
	}
}
