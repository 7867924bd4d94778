import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Asks java.util.regex what it matches and replaces; its answers are the vectors of the tests.
 *
 * <p>java make_vectors.java | xz -9e > vectors.tsv.xz
 *
 * <p>Lines, tab between fields, signs outside of printable ASCII and "%" as %XX of UTF-8:
 * "T text" numbers texts from 0; "E pattern" is one that Java refuses; "P pattern groups" is one
 * that it takes, with "R text replaced" for each text it matches whole, where the first match
 * found has become "<group 1|group 2|...>".
 */
class MakeVectors {
  static final String[] TEXTS = {
    "", "a", "b", "A", "aa", "ab", "ba", "aab", "abab", "aaab", "abba", "AbAb", "aBc", "abc", "cab",
    "a1", "b2c", "1", "42", "a.b", "a-b", "a_b", "a b", "a\tb", "a\nb", "a\rb", "a\u0085b",
    "a\u2028b", "a\u000bb", "a&b", "a^b", "a]b", "a[b", "a\\b", "a$b", "a{2}", "{2}", "a,b", "#a",
    "orders", "orders.v1", "orders-dlq", "team.orders.eu", "ORDERS", "_internal", "__consumer_offsets",
    "payments.2024-01", "a\u00e9b", "\u00e9", "\u00c9", "\u00df", "\u017f", "\u212a", "k", "K", "s", "S",
    "\u0130", "i", "I", "\u4e2d", "\ud83d\ude00", "a\ud83d\ude00b", "\u00a0", "\u3000", "\u0660", "\u01c5",
    "aaaaaaaa", "bbbbba", "abcabcabc", "a|b", "(a)", "a+b", "a*b", "a?b", "x", "y",
    "topic-1", "topic-12", "my.topic_3", "dev.orders.v1", "prod.orders.v2", "a\r\nb", "\u0001", "\u007f",
  };
  static final String[] PATTERNS = {
    "(a+)+$", "(a+)+$(a+)+$", "orders.*", "order(s|-dlq)?.*", "^orders$", "\\Aorders\\z", "orders\\Z",
    "(.*)\\.(.*)", "([^.]+)\\.(.*)", "(?<env>dev|prod)\\.(?<rest>.*)", "(?<a>a)(?<b>b)?", "(?i)orders",
    "(?i:ord)ERS", "(?i:ord)ers", "a(?i)b|c", "(a(?i)b)c", "(?i)[a-f]+", "(?i)[^a-f]+", "(?i)k", "(?i)s",
    "(?i)i", "(?i)\u00e9", "(?i)\\p{Lower}+", "(?i)\\p{Upper}+", "(?i)\\p{Lu}+", "(?i)\\p{Ll}+", "(?i)\\p{Lt}+",
    "(?i)[\\p{Lower}]+", "(?i)[^\\p{Upper}]+", "(?-i)a", "(?i-s)A.b", "(?s)a.b", "(?s:a.)b", "a.b", "(?d)a.b",
    "(?sd)a.b", "(?x)a b # c", "(?x) a \\  b", "(?x)a\\#", "(?x:a b)c", "(?x)[a b]+", "(?x)[a # c\n b]+",
    "(?x)a + b", "(?x)a # c\n b", "(?x)(a) (b)?", "\\Qa.b\\E", "\\Qa\\E*", "\\Qa.b", "\\Qab\\E+", "[\\Qa-b\\E]+",
    "\\Q\\\\E", "\\Qa\\b\\E", "a\\Q\\E", "\\Q1\\E", "\\Q[\\E", "\\E", "\\d+", "\\D+", "\\w+", "\\W+", "\\s", "\\S+",
    "a\\sb", "a\\hb", "a\\vb", "a\\Rb", "\\h", "\\H", "\\v", "\\V+", "[\\d.]+", "[^\\d.]+", "[\\D]", "[\\s\\S]+",
    "[\\h]", "[\\w-]+", "[\\w-.]+", "[.-]", "a[-.]b", "a[.-]b", "a[a-]b", "[a-c-e]+", "[a\\-c]+", "[]a]+", "[^]a]+",
    "a[]]b", "a[^a]b", "[a^]+", "a[\\^]b", "[a[b]]+", "[a-c[x-z]]+", "[a-z&&[^b]]+", "[a-z&&abc]+",
    "[a-z&&[abc]x]+", "[a-z&&x[abc]]+", "[a-z&&[a-c]&&[b-d]]+", "[a-z&&a-c&&b-d]+", "[^a-z&&[abc]]+",
    "[^a[b]]+", "[[^a]b]+", "[^[^a]]+", "[a&&b]", "[a&&b]?", "a[&]b", "a[a&]b", "[&&a]", "[a&&]", "[a-z&&]+",
    "[a&&&b]", "[&&&&a]", "[a&&&&b]", "[ab&&[bc]d]", "[\\w&&[^\\d]]+", "[\\p{L}&&[^\\p{Lu}]]+", "[a-z&&^b]+",
    "\\p{L}+", "\\pL+", "\\PL+", "\\P{L}+", "\\p{Lu}", "\\p{Ll}+", "\\p{Lt}", "\\p{LC}+", "\\p{LD}+", "\\p{L1}+",
    "\\p{IsL}+", "\\p{IsLu}", "\\p{gc=Lu}", "\\p{general_category=Nd}+", "\\p{Nd}+", "\\p{N}+", "\\p{P}", "\\p{S}",
    "\\p{Z}", "\\p{Zs}", "\\p{C}", "\\p{Cc}", "\\p{So}", "\\p{Lo}", "\\p{all}+", "\\p{ASCII}+", "\\p{Alpha}+",
    "\\p{Digit}+", "\\p{Alnum}+", "\\p{Punct}", "\\p{Graph}+", "\\p{Print}+", "\\p{Blank}", "\\p{Cntrl}",
    "\\p{XDigit}+", "\\p{Space}", "\\P{Alpha}", "[\\p{Alpha}_.]+", "[^\\p{Alpha}]+", "[\\P{Alpha}]", "\\p{IsAlpha}",
    "\\p{IsLatin}", "\\p{InGreek}", "\\p{javaLowerCase}", "\\p{nope}", "\\p{}", "\\p", "\\p{L", "\\x61", "\\x{61}",
    "\\x{1F600}", "\\u0061", "\\uD83D\\uDE00", "\\uD83D", "\\0141", "\\07", "\\018", "\\0", "\\08", "\\cA", "\\c",
    "\\t", "a\\tb", "a\\nb", "a\\rb", "\\a", "\\e", "\\f", "\\y", "\\_", "a\\_b", "a\\-b", "a\\ b", "a\\&b", "\\\u00e9",
    "\\ba\\b", "\\Ba", "a\\bb", "a\\b\\.\\bb", "a\\B", "^*a", "a$*", "\\b?a", "(^)*a", "^^a$$", "a^b", "a$b", "a\\^b",
    "a|ab", "ab|a", "(a|ab)(c|bcd)?", "(a|b)*", "(a|b)+?", "(a|b)*?b", "(a*)*", "(a*)+", "(a|b*)*", "(|a)+", "(a|)+",
    "(a?)*b", "(a?)+?b", "((a)|b)*", "(?:(a)|b)*", "(?:(a)|(b))+", "((a)(b)?)+", "(a)?b", "(a??)(.*)", "(a*?)(b*)",
    "(.*?)(b.*)", "(.*)(b.*)", "(a{2}){0,1}b", "(ab){2}", "(ab){2,}", "(ab){1,3}c?", "a{0}b", "(a){0}b", "a{2}",
    "a{2,3}?b", "a{2,1}", "a{,2}", "a{", "a{x}", "{2}", "a{2", "a{2}{2}", "a**", "a*+", "a++b", "a?+a", "a{1}+", "*a",
    "+", "?", "a|*", "(*)", "()", "(|)", "(a||b)", "|a", "a|", "(?:)", "(?:a", "(a", "a)", ")", "[a", "[", "[]", "[^]",
    "a]", "]", "}", "a}", "\\", "a\\", "(?", "(?a)", "(?i", "(?<1>a)", "(?<a>a)(?<a>b)", "(?<a_b>a)", "(?<a>a", "(?P<a>a)",
    "(?!b).*", "^(?!a|b).*", "(?!a$).*", "(?=a).*b", "(?!a)(?!b).*", "(?i)(?!ORD).*", "(?!(a|b)+\\.).*", "(?!a)b|c",
    "^(?!__|_internal)[a-z_.-]+$", "(?!(?:dev|prod)\\.)([a-z]+)\\.(.*)", "(?!a)*b", "(?!)a", "(?=)a", "((?!b).)*", "(?!a(?=b)).*",
    "(?!a).*|", "\\A(?!or).*", "x|(?!a).*", "(?-i)(?!A)(?i)[a-b]+", "(?!a", "(?#c)a", "(?=a)a",
    "[^-]*+-(.*)", "[a-z]++", "[a-z]++$", "[a-z]*+[.]([a-z]*+).*", "a?+b", "a{1,2}+b+", "a*+[b-c]{2}", "[ab]*+b", "a*+b?c",
    "(a*+)b", "a*+|b", "(?:ab)*+c", "a*+(b)", "a++?", "a*+\\bb", "(?i)a*+B", "(?i)a*+A", "a*+${1,2}", "a*+$?b", "a*+",
    "(?!b)a", "(?<=a)b", "(?<!a)b", "(?>a)b", "(a)\\1", "(?<a>a)\\k<a>", "\\Ga", "\\X", "(?m)^a",
    "(?u)a", "(?U)\\w", "(?iu)K", "(?)a", "(?-)a", "(?i)", "(?i)*", "(?-m)a", "[z-a]", "[a-\\d]", "[\\d-z]+", "[a-[b]]",
    "[\\b]", "[\\R]", "[\\A]", "[\\Q]\\E]", "[a\\]b]+", "a[\\\\]b", "a[$.{}()*+?|]b", "[ -~]+", "[!-/]", "\\N{DIGIT ONE}",
    "(((((a)))))", "(a)(b)?(c)?", "(a(b(c)))", "((a|b)(c)?)*", "(.)(.)(.)", "(.+)-(.+)", "([a-z]+)[.-]([a-z0-9]+)",
    "team\\.(.*)\\.(eu|us)", "(?:dev|prod)\\.(.*)\\.v([0-9]+)", "my[.]topic_(\\d)", "topic-\\d{1,3}", ".*", ".+", ".", "",
  };
  static final String[] PIECES = {
    "a", "b", "c", "A", "1", ".", "-", "_", "\\.", "\\d", "\\w", "\\W", "\\s", "\\S", "[ab]", "[^a]", "[a-c]", "[^a-c1]",
    "[\\w&&[^a]]", "\\p{Alpha}", "\\P{Digit}", "^", "$", "\\b", "\\B", "(?i)", "(?-i)", "(?s)", "\\Qb\\E", "[a[1]]", "\\x61",
  };
  static final String[] QUANTIFIERS = {"*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2,}"};
  static final int RANDOM_PATTERNS = 2000;

  static void pattern(Random random, StringBuilder out, int depth) {
    int pieces = 1 + random.nextInt(4);
    for (int i = 0; i < pieces; i++) {
      int kind = random.nextInt(12);
      String piece;
      if (kind < 3 && depth < 3) {
        String[] opens = {"(", "(", "(?:", "(?i:", "(?s:"};
        StringBuilder inner = new StringBuilder(opens[random.nextInt(opens.length)]);
        pattern(random, inner, depth + 1);
        piece = inner.append(")").toString();
      } else {
        piece = PIECES[random.nextInt(PIECES.length)];
      }
      out.append(piece);
      if (random.nextInt(3) == 0 && !piece.endsWith("i)") && !piece.equals("(?s)")) {
        out.append(QUANTIFIERS[random.nextInt(QUANTIFIERS.length)]);
      }
      if (random.nextInt(8) == 0) {
        out.append("|");
      }
    }
  }

  static String escape(String text) {
    StringBuilder out = new StringBuilder();
    for (byte one : text.getBytes(StandardCharsets.UTF_8)) {
      boolean plain = one >= 0x20 && one < 0x7f && one != '%';
      out.append(plain ? String.valueOf((char) one) : String.format("%%%02X", one & 0xff));
    }
    return out.toString();
  }

  static void write(PrintStream out, String text) {
    Pattern pattern;
    try {
      pattern = Pattern.compile(text);
    } catch (PatternSyntaxException | StringIndexOutOfBoundsException error) {
      out.println("E\t" + escape(text));
      return;
    }
    int groups = pattern.matcher("").groupCount();
    StringBuilder lines = new StringBuilder("P\t" + escape(text) + "\t" + groups + "\n");
    StringBuilder replacement = new StringBuilder("<");
    for (int group = 1; group <= groups; group++) {
      replacement.append(group > 1 ? "|$" : "$").append(group);
    }
    try {
      for (int at = 0; at < TEXTS.length; at++) {
        Matcher matcher = pattern.matcher(new Limited(TEXTS[at]));
        if (matcher.matches()) {
          String replaced = matcher.replaceFirst(replacement + ">");
          lines.append("R\t" + at + "\t" + escape(replaced) + "\n");
        }
      }
    } catch (IllegalStateException tooLong) {
      return;
    }
    out.print(lines);
  }

  /** A text that Java may look at only so often: some patterns would take it for ever. */
  static class Limited implements CharSequence {
    final String text;
    int left = 20_000;

    Limited(String text) {
      this.text = text;
    }

    @Override
    public char charAt(int index) {
      if (left-- == 0) {
        throw new IllegalStateException();
      }
      return text.charAt(index);
    }

    @Override
    public int length() {
      if (left-- == 0) {
        throw new IllegalStateException();
      }
      return text.length();
    }

    @Override
    public CharSequence subSequence(int start, int end) {
      return text.substring(start, end);
    }

    @Override
    public String toString() {
      return text;
    }
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String text : TEXTS) {
      out.println("T\t" + escape(text));
    }
    for (String pattern : PATTERNS) {
      write(out, pattern);
    }
    Random random = new Random(18);
    for (int i = 0; i < RANDOM_PATTERNS; i++) {
      StringBuilder pattern = new StringBuilder();
      pattern(random, pattern, 0);
      write(out, pattern.toString());
    }
    out.flush();
  }
}
