"""The program that reads Avro values of one schema; ``avro_decode_kernels`` runs it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafkeep.data import avro_decode_kernels as machine
from kafkeep.data.arrow_parts import frozen
from kafkeep.data.avro_plan import Node, Shape
from kafkeep.data.schema import Kind
from kafkeep.kernel import Int64s

_OPS = {
    Shape.FLOAT: machine.FLOAT,
    Shape.DOUBLE: machine.DOUBLE,
    Shape.BOOLEAN: machine.BOOLEAN,
    Shape.FIXED: machine.FIXED,
    Shape.ENUM: machine.ENUM,
}


@dataclass(slots=True)
class Program:
    """Instructions, and which slots the values and branches of a node (by its id) are in."""

    code: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    slots: int = 0
    depth: int = 1
    """How deep lists are nested, at least 1."""
    value: dict[int, int] = field(default_factory=dict)
    branch: dict[int, int] = field(default_factory=dict)


def compile_program(node: Node) -> Program:
    """Return the program for one type; nodes are told apart by identity, so keep ``node``."""
    program = Program()
    code: list[int] = []
    _emit(node, program, code, 1)
    code += [machine.END, 0, 0]
    program.code = frozen(np.array(code, dtype=np.int64))
    program.slots = max(1, program.slots)
    return program


def _slot(program: Program, count: int = 1) -> int:
    program.slots += count
    return program.slots - count


def _emit(node: Node, program: Program, code: list[int], depth: int) -> None:
    if node.shape is Shape.UNION:
        _emit_union(node, program, code, depth)
    elif node.value_branch >= 0:
        branches = 1 + max(node.null_branch, node.value_branch)
        targets = _emit_branches(node, program, code, branches)
        targets[node.value_branch] = len(code)
        _emit_value(node, program, code, depth)
        _patch(code, targets, node.null_branch)
    else:
        _emit_value(node, program, code, depth)


class _Targets(dict[int, int]):
    """Where each branch begins; ``at`` is where the instruction wants to know it."""

    at = 0
    count = 0


def _emit_branches(node: Node, program: Program, code: list[int], count: int) -> _Targets:
    slot = program.branch[id(node)] = _slot(program)
    code += [machine.UNION, slot, count]
    targets = _Targets()
    targets.at, targets.count = len(code), count
    code += [0] * count
    return targets


def _patch(code: list[int], targets: _Targets, null_branch: int) -> None:
    if null_branch >= 0:
        targets[null_branch] = len(code)
    for branch in range(targets.count):
        code[targets.at + branch] = targets[branch]


def _emit_union(node: Node, program: Program, code: list[int], depth: int) -> None:
    count = len(node.branches) + (node.null_branch >= 0)
    targets = _emit_branches(node, program, code, count)
    jumps = []
    for child, branch in zip(node.children, node.branches, strict=True):
        targets[branch] = len(code)
        _emit(child, program, code, depth)
        jumps.append(len(code) + 1)
        code += [machine.JUMP, 0]
    for place in jumps:
        code[place] = len(code)
    _patch(code, targets, node.null_branch)


def _emit_value(node: Node, program: Program, code: list[int], depth: int) -> None:
    match node.shape:
        case Shape.RECORD:
            for child in node.children:
                _emit(child, program, code, depth)
        case Shape.LIST:
            _emit_list(node, program, code, depth)
        case Shape.NUMBER:
            op = machine.LONG if node.schema.kind is Kind.INT64 else machine.INT
            code += [op, _value_slot(node, program), 0]
        case Shape.BYTES:
            op = machine.TEXT if node.schema.kind is Kind.STRING else machine.BYTES
            code += [op, _value_slot(node, program, 2), 0]
        case Shape.FIXED:
            code += [machine.FIXED, _value_slot(node, program, 2), node.width]
        case _:
            code += [_OPS[node.shape], _value_slot(node, program), len(node.symbols)]


def _value_slot(node: Node, program: Program, count: int = 1) -> int:
    slot = program.value[id(node)] = _slot(program, count)
    return slot


def _emit_list(node: Node, program: Program, code: list[int], depth: int) -> None:
    program.depth = max(program.depth, depth)
    slot = _value_slot(node, program)
    code += [machine.LIST, slot]
    start = len(code)
    code += [machine.NEXT, slot, 0]
    _emit(node.children[0], program, code, depth + 1)
    code += [machine.JUMP, start]
    code[start + 2] = len(code)
